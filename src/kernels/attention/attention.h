// Causal attention over the paged KV cache for a packed batch: prompt chunks and single tokens
// alike, MHA, GQA and MQA. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/stream.h"
#include "kernels/rope/rope.h"

namespace zonda::kernels {

// The tokens of one sequence in this step.
struct AttentionRow {
  int64_t token_begin = 0;  // index of its first token in q
  int32_t num_tokens = 0;   // new tokens
  int32_t start_position =
      0;  // position of the first new token; keys [0, start + num_tokens) are in the cache
  const int32_t* block_table = nullptr;  // block ids, one for each block_size positions
};

struct AttentionParams {
  const float* q =
      nullptr;  // [tokens, num_heads, head_size], token stride q_stride floats; already rotated
  float* out =
      nullptr;  // [tokens, num_heads, head_size], token stride out_stride floats; must not alias q
  std::span<const AttentionRow> rows;
  PagedKv kv;                      // keys and values of the new tokens are already appended
  std::byte* workspace = nullptr;  // attention_workspace_bytes(...), 64-byte aligned
  int64_t q_stride = 0;
  int64_t out_stride = 0;
  int32_t num_heads = 0;  // a multiple of kv.num_kv_heads
  float scale = 1.0f;     // multiplies q * k
  int32_t window = 0;     // > 0: a token sees only the last `window` positions, itself included
  float soft_cap = 0.0f;  // > 0: scores become cap * tanh(score / cap)
};

int64_t attention_workspace_bytes(int64_t max_tokens, int32_t num_heads, int32_t head_size,
                                  int threads);

// Bit-equal for a token whatever the batch, chunking, block ids and threads: keys are reduced in
// fixed ranges aligned to position 0, combined in order.
void attention(const AttentionParams& params, device::Stream& stream);
void attention_reference(const AttentionParams& params);

}  // namespace zonda::kernels
