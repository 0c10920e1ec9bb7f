// Joining the parts of decode attention: of a block's warps, and of a sequence's shares, always in
// order. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/attention_math.cuh"
#include "kernels/attention/cuda/decode_device.cuh"
#include "kernels/attention/cuda/decode_split.h"

namespace zonda::kernels::cuda {

// Four elements of one head, summed with weights relative to exp2(max).
struct DecodePart {
  float4 out;
  float max;
  float sum;

  // What is summed relative to exp2 of a maximum, with `weight` for that.
  __device__ __forceinline__ void add(const float4& x, float of_sum, float weight) {
    sum = fmaf(of_sum, weight, sum);
    out.x = fmaf(x.x, weight, out.x);
    out.y = fmaf(x.y, weight, out.y);
    out.z = fmaf(x.z, weight, out.z);
    out.w = fmaf(x.w, weight, out.w);
  }
  __device__ __forceinline__ void add(const DecodePart& x) {
    const float both = fmaxf(max, x.max);
    const float mine = exp2_fast(max - both);
    const float other = exp2_fast(x.max - both);
    max = both;
    sum = fmaf(x.sum, other, __fmul_rn(sum, mine));
    out.x = fmaf(x.out.x, other, __fmul_rn(out.x, mine));
    out.y = fmaf(x.out.y, other, __fmul_rn(out.y, mine));
    out.z = fmaf(x.out.z, other, __fmul_rn(out.z, mine));
    out.w = fmaf(x.out.w, other, __fmul_rn(out.w, mine));
  }
  __device__ __forceinline__ void write(void* to, int64_t at, DType activation) const {
    const float inverse = 1.0f / sum;
    const uint2 bits = {activation_pair(out.x * inverse, out.y * inverse, activation),
                        activation_pair(out.z * inverse, out.w * inverse, activation)};
    *reinterpret_cast<uint2*>(static_cast<char*>(to) + at * 2) = bits;
  }
};

// Shares of one row in the workspace.
struct StoredShares {
  float4* out;      // [shares, split.heads * head_size / 4]
  float2* max_sum;  // [shares, kDecodeHeads]
  int64_t quads;    // from one share's out to the next

  __device__ __forceinline__ StoredShares(const AttentionParams& p, const DecodeSplit& split,
                                          int sequence, int row) {
    const int rows = p.kv.num_kv_heads * split.group_tiles;
    const int64_t all = int64_t{p.num_sequences} * rows * split.shares;
    const int64_t first = (int64_t{sequence} * rows + row) * split.shares;
    quads = split.heads * p.kv.head_size / 4;
    max_sum = reinterpret_cast<float2*>(p.workspace) + first * kDecodeHeads;
    out = reinterpret_cast<float4*>(reinterpret_cast<float2*>(p.workspace) + all * kDecodeHeads) +
          first * quads;
  }
  __device__ __forceinline__ void put(int share, int i, int head, bool is_first_of_head,
                                      const DecodePart& part) const {
    __stcg(out + share * quads + i, part.out);
    if (is_first_of_head) {
      __stcg(max_sum + share * kDecodeHeads + head, float2{part.max, part.sum});
    }
  }
  __device__ __forceinline__ DecodePart join(int count, int i, int head) const {
    DecodePart all = get(0, i, head);
#pragma unroll 4
    for (int s = 1; s < count; ++s) {
      all.add(get(s, i, head));
    }
    return all;
  }

 private:
  __device__ __forceinline__ DecodePart get(int share, int i, int head) const {
    const float2 ms = __ldcg(max_sum + share * kDecodeHeads + head);
    return {__ldcg(out + share * quads + i), ms.x, ms.y};
  }
};

// Shares of one row that the blocks of a cluster send each other: block r joins the quads [r *
// each, (r + 1) * each). In the shared memory of every block: [shares][each] of two float4.
struct ClusterInbox {
  uint32_t base;
  int each;

  static constexpr int bytes(int shares, int quads, int blocks) {
    return shares * ((quads + blocks - 1) / blocks) * 32;
  }
  __device__ __forceinline__ ClusterInbox(const void* memory, int quads, int blocks)
      : base(shared_address(memory)), each((quads + blocks - 1) / blocks) {}
  __device__ __forceinline__ void send(int share, int i, const DecodePart& part) const {
    const uint32_t rank = static_cast<uint32_t>(i / each);
    const uint32_t at =
        static_cast<uint32_t>((share * each + i - static_cast<int>(rank) * each) * 32);
    const uint32_t to = address_in_cluster(base + at, rank);
    store_in_cluster(to, part.out);
    store_in_cluster(to + 16, {part.max, part.sum, 0.0f, 0.0f});
  }
  static __device__ __forceinline__ DecodePart get(const float4* at) {
    return {at[0], at[1].x, at[1].y};
  }
  // Of this block's quad i.
  __device__ __forceinline__ DecodePart join(const float4* memory, int count, int i) const {
    DecodePart all = get(memory + i * 2);
#pragma unroll 4
    for (int s = 1; s < count; ++s) {
      all.add(get(memory + (s * each + i) * 2));
    }
    return all;
  }
};

}  // namespace zonda::kernels::cuda
