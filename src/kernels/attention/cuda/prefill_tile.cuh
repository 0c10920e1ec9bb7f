// Tiles of 16-bit values in shared memory: swizzled rows, copies from the paged cache and reads as
// tensor core operands. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/attention_math.cuh"

namespace zonda::kernels::cuda {

constexpr int kPrefillWarps = 4;
constexpr int kPrefillThreads = 32 * kPrefillWarps;
constexpr int kPrefillKeys = 64;  // keys of a tile, aligned to position 0

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// Bytes beyond `bytes` become zeros.
__device__ __forceinline__ void copy_async_16(uint32_t to, const char* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(bytes));
}
__device__ __forceinline__ void copy_async_8(uint32_t to, const char* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// What is computed from `at` is computed again after this: addresses of a loop's unrolled steps
// shall not be kept in registers from one round to the next.
__device__ __forceinline__ uint32_t recomputed(uint32_t at) {
  asm volatile("" : "+r"(at));
  return at;
}

__device__ __forceinline__ void store_shared_16(uint32_t to, const uint4& v) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}
__device__ __forceinline__ uint4 load_shared_16(uint32_t from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

__device__ __forceinline__ uint4 load_matrices(uint32_t at) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at)
               : "memory");
  return v;
}
__device__ __forceinline__ uint4 load_matrices_transposed(uint32_t at) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at)
               : "memory");
  return v;
}

// Rows of kHead 16-bit elements. The 16-byte chunk i of row r lies at chunk i ^ (r % 8), so that
// eight rows of one chunk, and eight chunks of one row, lie in different banks.
template <int kHead>
struct TileLayout {
  static constexpr int kPitch = (kHead + 63) / 64 * 128;  // bytes
  static constexpr int bytes(int rows) { return rows * kPitch; }
  static __device__ __forceinline__ uint32_t offset(int row, int chunk) {
    return row * kPitch + ((chunk ^ (row & 7)) << 4);
  }
};

// One tile of keys or of values on its way from the paged cache: 16-bit elements go straight to
// their place, fp8 through a raw copy that convert() spreads.
template <DType kKv, int kHead>
struct CacheTile {
  using Layout = TileLayout<kHead>;
  static constexpr int kBytes = KvType<kKv>::kBytes;
  static constexpr int kChunks = kHead * kBytes / 16;  // of a row in the cache
  static constexpr bool kConverts = kBytes == 1;
  static constexpr int kRawBytes = kConverts ? kPrefillKeys * kHead : 0;
  static constexpr int kSharedBytes = Layout::bytes(kPrefillKeys) + kRawBytes;

  uint32_t place;  // shared memory of kSharedBytes
  int64_t offset;  // 0 for keys, kv.value_offset for values

  // Starts to copy the keys [first, first + kPrefillKeys); those outside of [begin, end) become
  // zeros.
  __device__ __forceinline__ void start(const KvHead& kv, int first, int begin, int end) const {
    const uint32_t raw = place + Layout::bytes(kPrefillKeys);
    const bool whole = kv.row_bytes % 16 == 0;
    const int thread = recomputed(threadIdx.x);
    // Not all at once: the addresses take registers.
    constexpr int kAtOnce = kConverts ? 2 : 4;
#pragma unroll(kAtOnce)
    for (int i = 0; i < kPrefillKeys * kChunks / kPrefillThreads; ++i) {
      const int index = thread + i * kPrefillThreads;
      const int row = index / kChunks;
      const int chunk = index % kChunks;
      const int key = first + row;
      const bool inside = chunk * 16 < kv.row_bytes;
      const bool seen = key >= begin && key < end && inside;
      // Always the address of a key that is seen, so that no branch keeps the table's loads apart.
      const char* from = kv.key(min(max(key, begin), end - 1)) + offset + (inside ? chunk * 16 : 0);
      const uint32_t to =
          kConverts ? raw + row * kHead + chunk * 16 : place + Layout::offset(row, chunk);
      if (!kConverts || whole) {
        copy_async_16(to, from, seen ? 16 : 0);
      } else {
        const bool second = seen && chunk * 16 + 8 < kv.row_bytes;
        copy_async_8(to, from, seen ? 8 : 0);
        copy_async_8(to + 8, second ? from + 8 : from, second ? 8 : 0);
      }
    }
  }

  __device__ __forceinline__ void convert() const {
    const uint32_t raw = place + Layout::bytes(kPrefillKeys);
#pragma unroll
    for (int i = 0; i < kPrefillKeys * kChunks / kPrefillThreads; ++i) {
      const int index = threadIdx.x + i * kPrefillThreads;
      const int row = index / kChunks;
      const int chunk = index % kChunks;
      const uint4 v = load_shared_16(raw + row * kHead + chunk * 16);
      store_shared_16(place + Layout::offset(row, 2 * chunk),
                      {fp16_pair_of_fp8(v.x), fp16_pair_of_fp8(v.x >> 16), fp16_pair_of_fp8(v.y),
                       fp16_pair_of_fp8(v.y >> 16)});
      store_shared_16(place + Layout::offset(row, 2 * chunk + 1),
                      {fp16_pair_of_fp8(v.z), fp16_pair_of_fp8(v.z >> 16), fp16_pair_of_fp8(v.w),
                       fp16_pair_of_fp8(v.w >> 16)});
    }
  }

  // Called by the whole block: the tile is there, and every thread is past what it did before.
  // `start_next` runs as soon as the other tile's place is free.
  template <typename StartNext>
  __device__ __forceinline__ void arrive(StartNext&& start_next) const {
    wait_for_copies();
    __syncthreads();
    start_next();
    if constexpr (kConverts) {
      convert();
      __syncthreads();
    }
  }
};

}  // namespace zonda::kernels::cuda
