// What decode attention does once a row: its queries, and the new token of a fused launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/decode_loads.cuh"
#include "kernels/attention/cuda/new_token.cuh"

namespace zonda::kernels::cuda {

// The heads of a row in p.q, and the new key and value behind them, as they are there.
template <int kHead>
struct DecodeRaw {
  uint4 q[kDecodeHeads * kHead / 8];
  uint4 key[kHead / 8];
  uint4 value[kHead / 8];
};

struct DecodeRow {
  int64_t token;
  int64_t out;  // element of the first head in p.out
  int kv_head;
  int first_head;
  int heads;
  bool is_first_tile;  // of the KV head's
  bool has_newest;     // the block has the share with the newest key

  DecodeRow() = default;
  __device__ __forceinline__ DecodeRow(const AttentionParams& p, const DecodeSplit& split,
                                       const DecodePlace& place, int64_t row_token) {
    const int group = p.num_heads / p.kv.num_kv_heads;
    kv_head = place.row / split.group_tiles;
    const int in_group = (place.row - kv_head * split.group_tiles) * kDecodeHeads;
    first_head = kv_head * group + in_group;
    heads = min(kDecodeHeads, group - in_group);
    is_first_tile = in_group == 0;
    has_newest = place.has_newest;
    token = row_token;
    out = token * p.out_stride + int64_t{first_head} * p.kv.head_size;
  }
};

// Copies a row's raw heads, as part of a group of copies, or with kNow before it returns.
template <bool kFused, bool kNow, int kHead>
__device__ __noinline__ void copy_raw_heads(const AttentionParams& p, DecodeRow row,
                                            DecodeRaw<kHead>& raw) {
  const int of_head = p.kv.head_size / 8;
  const int of_queries = row.heads * of_head;
  const int all = of_queries + (kFused && row.has_newest ? 2 * of_head : 0);
  const char* q = static_cast<const char*>(p.q) + row.token * p.q_stride * 2;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kDecodeThreads) {
    int head = row.first_head;
    int chunk = i;
    uint4* to = raw.q;
    if (kFused && i >= of_queries) {
      const bool is_value = i >= of_queries + of_head;
      chunk = i - of_queries - (is_value ? of_head : 0);
      head = p.num_heads + (is_value ? p.kv.num_kv_heads : 0) + row.kv_head;
      to = is_value ? raw.value : raw.key;
    }
    const char* from = q + (int64_t{head} * p.kv.head_size + chunk * 8) * 2;
    if (kNow) {
      to[chunk] = *reinterpret_cast<const uint4*>(from);
    } else {
      copy_16(shared_address(to + chunk), from);
    }
  }
}

// Queries as operands of the products; unused heads stay as they are (zeros).
template <class Warp>
__device__ __forceinline__ void put_query(uint4* queries, const uint4& bits, int head, int eight,
                                          DType activation) {
  uint32_t* words = reinterpret_cast<uint32_t*>(queries);
  const uint32_t pairs[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[Warp::query_word(head, eight, i)] =
        pair_of_activations<typename Warp::Math>(pairs[i], activation);
  }
}

// From raw heads to `queries` and, for the run that has the newest key, to `fresh` and the cache.
template <DType kKv, int kHead, bool kFused>
__device__ __noinline__ void prepare_row(const AttentionParams& p, const DecodeSplit& split,
                                         const RopeAppendParams& rope, DecodeRow row, int64_t slot,
                                         const DecodeRaw<kHead>& raw, NewToken<kKv, kHead>& fresh,
                                         uint4* queries) {
  constexpr int kEights = kHead / 8;
  const int head_size = p.kv.head_size;
  const int all = (split.heads + (kFused && row.has_newest ? 2 : 0)) * kEights;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kDecodeThreads) {
    const int head = i / kEights;
    const int eight = i % kEights;
    if (head < split.heads) {
      uint4 bits = {0, 0, 0, 0};
      if (head < row.heads && eight * 8 < head_size) {
        const uint4* q = raw.q + head * (head_size / 8);
        bits = kFused ? fresh.rotated_query(rope, reinterpret_cast<const char*>(q), eight * 8)
                      : q[eight];
      }
      put_query<DecodeWarp<kKv, kHead>>(queries, bits, head, eight, p.activation);
    } else {
      const bool is_key = head == split.heads;
      fresh.take(rope, reinterpret_cast<const char*>(is_key ? raw.key : raw.value), is_key ? 0 : 1,
                 row.kv_head, eight * 8, row.is_first_tile ? slot : -1);
    }
  }
}

}  // namespace zonda::kernels::cuda
