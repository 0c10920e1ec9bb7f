// The tactics over the m16n8k16 kernels of the integer formats.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/mma_integer_kernels.h"
#include "kernels/gemm/cuda/tactic_lists.h"

namespace zonda::kernels::cuda {
namespace {

using device::cuda::LaunchSite;
using Kernel = decltype(LinearTactic::run) IntegerKernels::*;

template <Kernel kKernel>
cudaError_t run_int8(const LinearParams& params, const LaunchSite& site) {
  const bool is_bf16 = params.activation == DType::kBFloat16;
  return ((is_bf16 ? kInt8Bf16Kernels : kInt8Fp16Kernels).*kKernel)(params, site);
}

template <Kernel kKernel>
cudaError_t run_int4(const LinearParams& params, const LaunchSite& site) {
  const bool is_bf16 = params.activation == DType::kBFloat16;
  return ((is_bf16 ? kInt4Bf16Kernels : kInt4Fp16Kernels).*kKernel)(params, site);
}

constexpr LinearTactic kInt8Tactics[] = {
    {"mma_r2_t8", 1, 8, true, true, run_int8<&IntegerKernels::r2_t8>},
    {"mma_r1_t8", 1, 8, true, true, run_int8<&IntegerKernels::r1_t8>},
    {"mma_r2_t16", 9, 16, false, true, run_int8<&IntegerKernels::r2_t16>},
    {"mma_r4_t32", 9, kAnyTokens, false, true, run_int8<&IntegerKernels::r4_t32>},
};
constexpr LinearTactic kInt4Tactics[] = {
    {"mma_r2_t8", 1, 8, true, true, run_int4<&IntegerKernels::r2_t8>},
    {"mma_r1_t8", 1, 8, true, true, run_int4<&IntegerKernels::r1_t8>},
    {"mma_r2_t16", 9, 16, false, true, run_int4<&IntegerKernels::r2_t16>},
    {"mma_r4_t32", 9, kAnyTokens, false, true, run_int4<&IntegerKernels::r4_t32>},
};

}  // namespace

std::span<const LinearTactic> mma_tactics_int8() { return kInt8Tactics; }
std::span<const LinearTactic> mma_tactics_int4() { return kInt4Tactics; }

}  // namespace zonda::kernels::cuda
