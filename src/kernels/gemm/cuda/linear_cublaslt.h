// Linears of many tokens as tactics over cuBLASLt; integer weights are made 16-bit first, of fp8
// weights the tokens are made fp8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/cuda/linear.h"

namespace zonda::kernels::cuda {

// Workspace of these tactics for up to max_tokens tokens.
int64_t cublaslt_workspace_bytes(const PackedType& packed, int64_t max_tokens);
// Empty where the library is absent. A call that cuBLASLt refuses goes to the m16n8k16 kernels.
std::span<const LinearTactic> cublaslt_tactics(WeightFormat format);

}  // namespace zonda::kernels::cuda
