// Kernels around a library's matrix product: weights made 16-bit before it, outputs finished after
// it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/launch.h"
#include "kernels/gemm/cuda/linear.h"

namespace zonda::kernels::cuda {

// Writes the weights of an integer format or of fp8 as `activation`, rounded once: out [16 * tiles,
// cols padded to 128], rows in packed order.
cudaError_t dequantize(const PackedType& packed, const std::byte* weights, DType activation,
                       void* out, const device::cuda::LaunchSite& site);

// Whether gate_pairs takes this call: gated, without bias, rows of a source a multiple of 8, y
// 16-byte aligned with a stride that is a multiple of 8.
bool can_gate_pairs(const LinearParams& params);
// Gated y of tokens [first_token, first_token + count) from 16-bit products [count, 16 * tiles] of
// `activation`, columns in packed order.
cudaError_t gate_pairs(const LinearParams& params, const void* products, int64_t first_token,
                       int64_t count, const device::cuda::LaunchSite& site);

// Tokens [first_token, first_token + count) of y from sums [count, 16 * tiles] of float32, columns
// in packed order, with any epilogue and bias.
cudaError_t finish_sums(const LinearParams& params, const float* sums, int64_t first_token,
                        int64_t count, const device::cuda::LaunchSite& site);

}  // namespace zonda::kernels::cuda
