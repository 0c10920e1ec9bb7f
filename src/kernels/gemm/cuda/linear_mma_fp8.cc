// The tactics over the m16n8k16 kernels of fp8 weights.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "kernels/gemm/cuda/tactic_lists.h"

namespace zonda::kernels::cuda {
namespace {

constexpr size_t kTactics = 9;        // of the table that both lists are
constexpr size_t kTokensTactics = 2;  // the same

template <size_t kIndex>
cudaError_t run_fp8(const LinearParams& params, const device::cuda::LaunchSite& site) {
  const bool is_bf16 = params.activation == DType::kBFloat16;
  return (is_bf16 ? mma_kernels_fp8_bf16() : mma_kernels_fp8_fp16())[kIndex].run(params, site);
}

template <size_t... kIndices>
std::array<LinearTactic, kTactics> make_tactics(std::index_sequence<kIndices...>) {
  std::array<LinearTactic, kTactics> tactics = {mma_kernels_fp8_bf16()[kIndices]...};
  ((tactics[kIndices].run = run_fp8<kIndices>), ...);
  return tactics;
}

template <size_t kIndex>
cudaError_t run_tokens(const LinearParams& params, const device::cuda::LaunchSite& site) {
  const bool is_bf16 = params.activation == DType::kBFloat16;
  return (is_bf16 ? mma_kernels_fp8_tokens_bf16() : mma_kernels_fp8_tokens_fp16())[kIndex].run(
      params, site);
}

template <size_t... kIndices>
std::array<LinearTactic, kTokensTactics> make_tokens_tactics(std::index_sequence<kIndices...>) {
  std::array<LinearTactic, kTokensTactics> tactics = {mma_kernels_fp8_tokens_bf16()[kIndices]...};
  ((tactics[kIndices].run = run_tokens<kIndices>), ...);
  return tactics;
}

}  // namespace

std::span<const LinearTactic> mma_tactics_fp8_tokens() {
  static const auto tactics = make_tokens_tactics(std::make_index_sequence<kTokensTactics>());
  return tactics;
}

std::span<const LinearTactic> mma_tactics_fp8() {
  static const auto tactics = make_tactics(std::make_index_sequence<kTactics>());
  return tactics;
}

}  // namespace zonda::kernels::cuda
