// What each file of kernels adds to the table of tactics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/cuda/linear.h"

namespace zonda::kernels::cuda {

// max_tokens of a tactic without a bound.
inline constexpr int64_t kAnyTokens = int64_t{1} << 30;

std::span<const LinearTactic> mma_tactics_bf16();
std::span<const LinearTactic> mma_tactics_fp16();
std::span<const LinearTactic> mma_tactics_int8();
std::span<const LinearTactic> mma_tactics_int4();
std::span<const LinearTactic> mma_tactics_fp8();

// The same table for each type of tokens; mma_tactics_fp8() chooses by it.
std::span<const LinearTactic> mma_kernels_fp8_bf16();
std::span<const LinearTactic> mma_kernels_fp8_fp16();
// fp8 weights with tokens made fp8, from compute capability 89 on; by the type of tokens and
// outputs.
std::span<const LinearTactic> mma_tactics_fp8_tokens();
std::span<const LinearTactic> mma_kernels_fp8_tokens_bf16();
std::span<const LinearTactic> mma_kernels_fp8_tokens_fp16();

// The m16n8k16 kernels of a format, fewest tokens first; the last takes any number. Empty: float32.
std::span<const LinearTactic> mma_tactics(WeightFormat format);

// The streaming kernels of int8 and int4, for compute capability 90 and newer: one or two tokens.
std::span<const LinearTactic> stream_tactics(WeightFormat format);

}  // namespace zonda::kernels::cuda
