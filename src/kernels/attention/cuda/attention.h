// Causal attention over the paged cache on a CUDA device: single tokens of many sequences (decode)
// and chunks of prompts (prefill). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "device/cuda/launch.h"
#include "kernels/rope/cuda/rope.h"

namespace zonda::kernels::cuda {

// All pointers are device memory, so that a captured launch can be replayed with new lengths. Rows
// of q and out and the blocks of kv are 16-byte aligned.
struct AttentionParams {
  const void* q = nullptr;  // [tokens, num_heads, head_size], token stride q_stride; rotated
  void* out = nullptr;      // [tokens, num_heads, head_size], token stride out_stride; not q
  // The sequences of this call.
  const int32_t* token_begin = nullptr;     // [num_sequences] index of the first token in q and out
  const int32_t* num_tokens = nullptr;      // [num_sequences]; 0: an unused place of a padded batch
  const int32_t* start_position = nullptr;  // [num_sequences] of the first token
  const int32_t* block_tables = nullptr;    // [num_sequences, table_stride]
  int64_t table_stride = 0;
  int32_t num_sequences = 0;
  // Upper bounds known on the host; they size the grid.
  int32_t max_tokens = 1;     // of num_tokens
  int32_t max_kv_length = 0;  // of start_position + num_tokens
  PagedKv kv = {};  // dtype kBFloat16 | kFloat16 | kFloat8E4M3; new keys are appended; head_size a
                    // multiple of 8 up to 256, block_size a power of two from 8 to 128
  std::byte* workspace = nullptr;  // decode: attention_workspace_bytes(...), 16-byte aligned
  // decode: [num_sequences * num_heads], zero before the first call; zero again after each call.
  uint32_t* arrivals = nullptr;
  int64_t q_stride = 0;    // elements
  int64_t out_stride = 0;  // elements
  int32_t num_heads = 0;   // a multiple of kv.num_kv_heads
  float scale = 1.0f;
  int32_t window = 0;
  float soft_cap = 0.0f;
  DType activation = DType::kBFloat16;  // kBFloat16 | kFloat16
};

// Workspace of decode_attention.
int64_t attention_workspace_bytes(int32_t max_sequences, int32_t num_heads, int32_t num_kv_heads,
                                  int32_t head_size);

// Both: cudaErrorInvalidValue for parameters outside of what is stated above.
// num_tokens is 0 or 1 everywhere. Keys are split into tiles aligned to position 0 by the length of
// their own sequence and combined in order: a token's result depends on its own sequence alone.
cudaError_t decode_attention(const AttentionParams& params, const device::cuda::LaunchSite& site);
// What rope_append(rope) and decode_attention(params) after it give, to the bit, in one launch; but
// qkv stays as it is. params.q, q_stride, num_heads, kv and activation are those of rope (qkv,
// qkv_stride); rope.num_tokens is not used and rope.positions not read: a token's position is its
// sequence's start_position. A token whose slot is -1 attends to its own key without appending it.
// As a dependent launch it reads before the kernels ahead have ended: the arrays of int32_t, slots,
// frequencies, and keys and values before start_position; no kernel ahead may write those.
// cudaErrorInvalidValue also if !can_fuse(rope).
cudaError_t fused_decode_attention(const AttentionParams& params, const RopeAppendParams& rope,
                                   const device::cuda::LaunchSite& site);
// rotary_dim a multiple of 16 (or no rotation), block_stride of 8.
bool can_fuse(const RopeAppendParams& rope);
// Any num_tokens. A token's result depends on its own sequence and position alone, not on the chunk
// it comes in. It may differ in rounding from decode_attention.
cudaError_t prefill_attention(const AttentionParams& params, const device::cuda::LaunchSite& site);

}  // namespace zonda::kernels::cuda
