// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) and the append of new keys and
// values to the paged cache. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/stream.h"

namespace zonda::kernels {

enum class RopeStyle : uint8_t {
  kNone,  // no rotation
  kNeox,  // pairs (i, i + dim / 2): TensorRT-LLM's rope_gpt_neox, Hugging Face's Llama
  kGptj,  // pairs (2i, 2i + 1): rope_gptj
};

// One layer's share of the paged cache. A block holds block_size slots of every KV head:
// [num_blocks, 2 (key, value), num_kv_heads, block_size, head_size] elements of dtype.
struct PagedKv {
  void* base = nullptr;  // first block of this layer
  int64_t block_stride =
      0;  // elements from one block to the next (all layers of a block lie together)
  int32_t block_size = 0;  // slots (tokens) of a block
  int32_t num_kv_heads = 0;
  int32_t head_size = 0;
  DType dtype = DType::kFloat32;  // kFloat32 | kFloat16 | kBFloat16
};

// Rotates q and k of the merged projection in place and writes k and v to their slots.
struct RopeAppendParams {
  float* qkv = nullptr;  // [num_tokens, qkv_stride]: num_heads q heads, then k heads, then v heads
  const int32_t* positions = nullptr;  // [num_tokens] position of the token in its sequence
  const int64_t* slots = nullptr;  // [num_tokens] block * block_size + offset; -1: do not append
  const int32_t* frequency_sets =
      nullptr;  // [num_tokens] row of inv_freq used by the token (dynamic scaling), or null: 0
  const float* inv_freq = nullptr;  // [sets, rotary_dim / 2] angles a position step, in radians
  float attention_factor = 1.0f;    // multiplies cos and sin (yarn, longrope)
  PagedKv kv;
  int64_t num_tokens = 0;
  int64_t qkv_stride = 0;
  int32_t num_heads = 0;
  int32_t rotary_dim = 0;  // leading elements of a head that rotate; even, <= head_size
  RopeStyle style = RopeStyle::kNeox;
};

// angle = float(position) * inv_freq in float32, as transformers computes it.
void rope_append(const RopeAppendParams& params, device::Stream& stream);
void rope_append_reference(const RopeAppendParams& params);

}  // namespace zonda::kernels
