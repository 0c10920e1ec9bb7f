// cuBLASLt, loaded when first asked for: one process-wide handle and the algorithms of seen shapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace zonda::kernels::cuda {

// Workspace every product may use.
inline constexpr int64_t kCublasLtWorkspace = int64_t{32} << 20;
// Algorithms asked for and kept of a shape.
inline constexpr int kCublasLtAlgorithms = 8;

// Row-major d [m, n] = a [m, k] * b [n, k]^T (+ c), of fp8 with a_scales[i] * b_scales[j] ahead of
// c. Device pointers, 16-byte aligned; strides in elements and multiples of 16 bytes for matrices
// of 8 and 16 bits.
struct MatrixProduct {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  // as d, of the same stride; or null; may be d
  void* d = nullptr;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t a_stride = 0;
  int64_t b_stride = 0;
  int64_t d_stride = 0;
  DType input = DType::kBFloat16;   // of a, b: kBFloat16 | kFloat16 | kFloat8E4M3
  DType output = DType::kBFloat16;  // of c, d: as input, of fp8 any 16-bit type; or kFloat32
  // fp8 alone: float32 [m] and [n], and whether sums stay in the registers of the tensor cores,
  // which keep fewer bits than float32.
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
  bool fast_accumulation = false;
};

// Whether libcublasLt.so.13 can be loaded here.
bool has_cublaslt();
// The product by the `choice`-th algorithm that cuBLASLt's heuristics name (the last one where
// there are fewer); `workspace` has kCublasLtWorkspace bytes. Asynchronous; thread-safe.
// cudaErrorNotSupported without the library or an algorithm.
cudaError_t cublaslt_product(const MatrixProduct& product, int choice, std::byte* workspace,
                             cudaStream_t stream);

}  // namespace zonda::kernels::cuda
