// The tactics over the streaming kernels, for compute capability 90 and newer.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/stream_kernels.h"
#include "kernels/gemm/cuda/tactic_lists.h"

namespace zonda::kernels::cuda {
namespace {

using device::cuda::LaunchSite;

StreamKernel kernel_of(const LinearParams& params) {
  const bool is_bf16 = params.activation == DType::kBFloat16;
  if (params.packed.type.format == WeightFormat::kInt8) {
    return is_bf16 ? kStreamInt8Bf16 : kStreamInt8Fp16;
  }
  return is_bf16 ? kStreamInt4Bf16 : kStreamInt4Fp16;
}

// What the streaming kernels do not take; the first of the list takes any number of tokens.
cudaError_t run_mma(const LinearParams& params, const LaunchSite& site) {
  const std::span<const LinearTactic> tactics = mma_tactics(params.packed.type.format);
  for (const LinearTactic& tactic : tactics) {
    if (params.num_tokens >= tactic.min_tokens && params.num_tokens <= tactic.max_tokens &&
        (params.norm_weight == nullptr || tactic.fuses_norm)) {
      return tactic.run(params, site);
    }
  }
  return tactics.front().run(params, site);
}

template <int kBlocks, bool kDeep>
cudaError_t run(const LinearParams& params, const LaunchSite& site) {
  const cudaError_t status = kernel_of(params)(params, site, {kBlocks, kDeep});
  return status == cudaErrorNotSupported ? run_mma(params, site) : status;
}

// More tokens than these take too long to bring in. Names: tokens, blocks of a multiprocessor, deep
// rings.
constexpr LinearTactic kTactics[] = {
    {"stream_t2_b2_deep", 1, 2, true, true, run<2, true>},
    {"stream_t2_b3", 1, 2, true, true, run<3, false>},
    {"stream_t2_b4", 1, 2, true, true, run<4, false>},
};

}  // namespace

std::span<const LinearTactic> stream_tactics(WeightFormat format) {
  const bool exists = format == WeightFormat::kInt8 || format == WeightFormat::kInt4;
  return exists ? std::span<const LinearTactic>(kTactics) : std::span<const LinearTactic>();
}

}  // namespace zonda::kernels::cuda
