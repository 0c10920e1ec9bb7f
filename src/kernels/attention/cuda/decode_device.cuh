// Instructions that decode attention is built of: copies to shared memory, matrix fragments, loads
// ahead of the dependency wait, and what the blocks of a cluster exchange.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace zonda::kernels::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ int log2_of(int power_of_two) { return 31 - __clz(power_of_two); }

__device__ __forceinline__ void copy_16(uint32_t to, const char* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
               : "memory");
}
// Without `whether`: zeros, and nothing is read.
__device__ __forceinline__ void copy_16_or_zeros(uint32_t to, const char* from, bool whether) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(whether ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copy_8_or_zeros(uint32_t to, const char* from, bool whether) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from),
               "r"(whether ? 8 : 0)
               : "memory");
}
__device__ __forceinline__ void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most the last kPending groups of this thread are on their way.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&to)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}

// A load that stays ahead of wait_for_previous(): of what no kernel of the step writes.
__device__ __forceinline__ int32_t load_early(const int32_t* at) {
  int32_t v;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(v) : "l"(at));
  return v;
}
__device__ __forceinline__ int64_t load_early(const int64_t* at) {
  int64_t v;
  asm volatile("ld.global.s64 %0, [%1];" : "=l"(v) : "l"(at));
  return v;
}

// Clusters exist from architecture 90 on; elsewhere these are never reached.
__device__ __forceinline__ void arrive_at_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// The address of `local`, shared memory of this block, in block `rank` of the cluster.
__device__ __forceinline__ uint32_t address_in_cluster(uint32_t local, uint32_t rank) {
  uint32_t remote = local;
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank));
#endif
  return remote;
}
__device__ __forceinline__ void store_in_cluster(uint32_t at, const float4& x) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(at), "f"(x.x), "f"(x.y),
               "f"(x.z), "f"(x.w)
               : "memory");
#endif
}

}  // namespace zonda::kernels::cuda
