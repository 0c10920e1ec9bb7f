// Hopper's asynchronous instructions as functions: warpgroup matrix products (wgmma), bulk tensor
// copies, transaction barriers and register budgets. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/attention/cuda/attention_math.cuh"

namespace zonda::kernels::cuda {

// Kernels of these instructions are empty for other architectures, and never launched there.
#if __CUDA_ARCH__ == 900
constexpr bool kHasWgmma = true;
#else
constexpr bool kHasWgmma = false;
#endif

// ---- Transaction barriers in shared memory; a wait names the parity of the phase it waits for.

__device__ __forceinline__ void init_barrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// The phase also needs `bytes` of bulk copies.
__device__ __forceinline__ void arrive_expecting(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Barriers of `threads` threads in hardware, ids 1 to 15.
__device__ __forceinline__ void sync_named(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive_named(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- Copies

// One box of a 4-dimensional tensor; coordinates beyond the tensor give zeros.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier,
                                         int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4, %5, %6}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
// Ordinary writes to shared memory become visible to wgmma.
__device__ __forceinline__ void publish_to_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- Registers of a warpgroup

template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- Matrix products of a warpgroup, d [64, n] += a [64, 16] b [16, n] in float32. Thread l of
// warp w holds d[16 w + l / 4 + 8 (i / 2 % 2)][8 (i / 4) + 2 (l % 4) + i % 2] as value i.

__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// All but the last kLeft groups are done.
template <int kLeft>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// Keeps the compiler from moving reads and writes of `d` across this point.
template <int kCount>
__device__ __forceinline__ void pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    asm volatile("" : "+f"(d[i])::"memory");
  }
}

// A matrix of 16-bit values in shared memory whose rows of 64 elements (128 bytes) are swizzled as
// the copy engine does: 16-byte chunk i of row r at i ^ (r % 8), eight rows 1024 bytes on.
// `column_bytes`: from one column of 64 elements to the next, for a transposed matrix.
__device__ __forceinline__ uint64_t swizzled_matrix(uint32_t at, uint32_t column_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kEightRows = uint64_t{1024 >> 4} << 32;
  return kSwizzle128 | kEightRows | (uint64_t{column_bytes >> 4} << 16) | ((at & 0x3ffff) >> 4);
}

// a and b: swizzled matrices of rows along k; a transposed b has rows along n. Without kAdd d
// becomes the product alone.
template <class Math>
struct Products;

// Operands of the instructions below.
#define ZONDA_D8(i)                                                                           \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define ZONDA_D32 ZONDA_D8(0), ZONDA_D8(8), ZONDA_D8(16), ZONDA_D8(24)
#define ZONDA_D64 ZONDA_D32, ZONDA_D8(32), ZONDA_D8(40), ZONDA_D8(48), ZONDA_D8(56)

template <>
struct Products<Bf16Math> {
  template <bool kAdd>
  static __device__ __forceinline__ void multiply(float (&d)[64], uint64_t a, uint64_t b) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
        ", %64, %65, p, 1, 1, 0, 0;\n}\n"
        : ZONDA_D64
        : "l"(a), "l"(b), "n"(kAdd ? 1 : 0));
  }
  static __device__ __forceinline__ void multiply_transposed(float (&d)[64], const uint32_t (&a)[4],
                                                             uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
        ", {%64,%65,%66,%67}, %68, 1, 1, 1, 1;\n"
        : ZONDA_D64
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
  static __device__ __forceinline__ void multiply_transposed(float (&d)[32], const uint32_t (&a)[4],
                                                             uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
        ", {%32,%33,%34,%35}, %36, 1, 1, 1, 1;\n"
        : ZONDA_D32
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
};

template <>
struct Products<Fp16Math> {
  template <bool kAdd>
  static __device__ __forceinline__ void multiply(float (&d)[64], uint64_t a, uint64_t b) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
        ", %64, %65, p, 1, 1, 0, 0;\n}\n"
        : ZONDA_D64
        : "l"(a), "l"(b), "n"(kAdd ? 1 : 0));
  }
  static __device__ __forceinline__ void multiply_transposed(float (&d)[64], const uint32_t (&a)[4],
                                                             uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
        ", {%64,%65,%66,%67}, %68, 1, 1, 1, 1;\n"
        : ZONDA_D64
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
  static __device__ __forceinline__ void multiply_transposed(float (&d)[32], const uint32_t (&a)[4],
                                                             uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
        ", {%32,%33,%34,%35}, %36, 1, 1, 1, 1;\n"
        : ZONDA_D32
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
};

#undef ZONDA_D64
#undef ZONDA_D32
#undef ZONDA_D8

}  // namespace zonda::kernels::cuda
