// Which tactics exist for a format and an instruction set.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/linear.h"

#include "base/error.h"
#include "kernels/gemm/cpu/linear_kernel.h"
#include "kernels/gemm/reference/linear_reference.h"

namespace zonda::kernels {
namespace {

constexpr LinearTactic kReference[] = {{"reference", 1, kManyTokens, run_linear_reference}};

TacticList vector_tactics(WeightFormat format, device::CpuIsa isa) {
  switch (isa) {
    case device::CpuIsa::kPortable:
      return {};
    case device::CpuIsa::kAvx2:
      return linear_tactics_avx2(format);
    case device::CpuIsa::kAvx512:
      return linear_tactics_avx512(format);
    case device::CpuIsa::kAvx512Bf16:
      return linear_tactics_avx512bf16(format);
    case device::CpuIsa::kAmx:
      return linear_tactics_amx(format);
  }
  return {};
}

}  // namespace

std::span<const LinearTactic> linear_tactics(const WeightType& type, device::CpuIsa isa) {
  const TacticList found = vector_tactics(type.format, isa);
  if (found.count == 0) {
    return kReference;
  }
  return {found.first, found.count};
}

const LinearTactic& default_linear_tactic(const WeightType& type, device::CpuIsa isa,
                                          int64_t num_tokens) {
  const std::span<const LinearTactic> tactics = linear_tactics(type, isa);
  for (const LinearTactic& tactic : tactics) {
    if (num_tokens >= tactic.min_tokens && num_tokens <= tactic.max_tokens) {
      return tactic;
    }
  }
  return tactics.front();
}

}  // namespace zonda::kernels
