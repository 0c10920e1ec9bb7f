// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "device/cuda/library.h"

namespace zonda::kernels::cuda {
namespace {

// The entry points in use, each by its own name.
struct Library {
  device::cuda::SharedLibrary file;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&cublasLtMatmulDescInit_internal) init_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatrixLayoutInit_internal) init_matrix = nullptr;
  decltype(&cublasLtMatmulPreferenceInit_internal) init_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  cublasLtHandle_t handle = nullptr;

  // Sets `function` to the symbol `name`; false without it.
  template <typename Function>
  bool find(const char* name, Function& function) {
    Result<Function> symbol = file.symbol<Function>(name);
    function = symbol ? *symbol : nullptr;
    return function != nullptr;
  }
  bool find_all() {
    return find("cublasLtCreate", create) && find("cublasLtMatmul", matmul) &&
           find("cublasLtMatmulAlgoGetHeuristic", get_heuristic) &&
           find("cublasLtMatmulDescInit_internal", init_operation) &&
           find("cublasLtMatmulDescSetAttribute", set_operation) &&
           find("cublasLtMatrixLayoutInit_internal", init_matrix) &&
           find("cublasLtMatmulPreferenceInit_internal", init_preference) &&
           find("cublasLtMatmulPreferenceSetAttribute", set_preference);
  }
};

// Never unloaded, since the handle is used until the process ends. `handle` is null where that
// fails.
Library* load_library() {
  static constexpr std::string_view kNames[] = {"libcublasLt.so.13"};
  auto* library = new Library;
  Result<device::cuda::SharedLibrary> file = device::cuda::SharedLibrary::open(kNames);
  if (file) {
    library->file = *std::move(file);
    if (library->find_all() && library->create(&library->handle) != CUBLAS_STATUS_SUCCESS) {
      library->handle = nullptr;
    }
  }
  return library;
}

const Library& library() {
  static const Library* const instance = load_library();
  return *instance;
}

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kFloat8E4M3:
      return CUDA_R_8F_E4M3;
    default:
      return CUDA_R_16BF;
  }
}

// The alignment that pointer and rows have in common, at most 256.
uint32_t alignment_of(const void* pointer, int64_t stride_bytes) {
  const auto bits =
      reinterpret_cast<uintptr_t>(pointer) | static_cast<uintptr_t>(stride_bytes) | 256;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

// One description of a product for cuBLASLt, which counts columns first: d^T = b * a^T.
struct Description {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t weights, tokens, out;

  bool init(const Library& l, const MatrixProduct& p) {
    const cudaDataType_t input = cuda_type(p.input);
    const cudaDataType_t output = cuda_type(p.output);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const auto matrix = [&](cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, int64_t rows,
                            int64_t cols, int64_t stride) {
      return l.init_matrix(&layout, sizeof(layout), type, static_cast<uint64_t>(rows),
                           static_cast<uint64_t>(cols), stride) == CUBLAS_STATUS_SUCCESS;
    };
    return l.init_operation(&operation, sizeof(operation), CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
               CUBLAS_STATUS_SUCCESS &&
           l.set_operation(&operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                           sizeof(transposed)) == CUBLAS_STATUS_SUCCESS &&
           matrix(weights, input, p.k, p.n, p.b_stride) &&
           matrix(tokens, input, p.k, p.m, p.a_stride) &&
           matrix(out, output, p.n, p.m, p.d_stride) &&
           (p.input != DType::kFloat8E4M3 || scale(l, p));
  }

 private:
  // A scale of each row of both matrices.
  bool scale(const Library& l, const MatrixProduct& p) {
    const int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    const int8_t fast = p.fast_accumulation ? 1 : 0;
    const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto& value) {
      return l.set_operation(&operation, name, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
    };
    return set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode) &&
           set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode) &&
           set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.b_scales) &&
           set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.a_scales) &&
           set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
  }
};

// What an algorithm may depend on.
using Key = std::array<int64_t, 13>;

Key key_of(const MatrixProduct& p) {
  const int64_t size = dtype_size(p.output);
  int device = 0;
  cudaGetDevice(&device);
  // Above 256 tokens algorithms are shared by every 128: tiles are no larger.
  const int64_t m = p.m <= 256 ? p.m : (p.m + 127) / 128 * 128;
  return {m,
          p.n,
          p.k,
          p.a_stride,
          p.b_stride,
          p.d_stride,
          static_cast<int64_t>(p.input),
          static_cast<int64_t>(p.output),
          p.c == nullptr ? 0 : alignment_of(p.c, p.d_stride * size),
          p.fast_accumulation ? 1 : 0,
          alignment_of(p.a, p.a_stride * dtype_size(p.input)),
          alignment_of(p.d, p.d_stride * size),
          device};
}

std::vector<cublasLtMatmulAlgo_t> ask(const Library& l, const MatrixProduct& p,
                                      Description& description) {
  cublasLtMatmulPreferenceOpaque_t preference;
  const auto bytes = static_cast<size_t>(kCublasLtWorkspace);
  const int64_t size = dtype_size(p.output);
  const uint32_t weights = alignment_of(p.b, p.b_stride * dtype_size(p.input));
  const uint32_t tokens = alignment_of(p.a, p.a_stride * dtype_size(p.input));
  const uint32_t out = alignment_of(p.d, p.d_stride * size);
  const uint32_t added = p.c == nullptr ? out : alignment_of(p.c, p.d_stride * size);
  // Parts of k are added in float32, never in a 16-bit output.
  const uint32_t reductions = p.output == DType::kFloat32 ? CUBLASLT_REDUCTION_SCHEME_MASK
                                                          : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    return l.set_preference(&preference, name, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  };
  std::array<cublasLtMatmulHeuristicResult_t, kCublasLtAlgorithms> results;
  int found = 0;
  const bool asked =
      l.init_preference(&preference, sizeof(preference)) == CUBLAS_STATUS_SUCCESS &&
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes) &&
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, weights) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, tokens) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, added) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out) &&
      l.get_heuristic(l.handle, &description.operation, &description.weights, &description.tokens,
                      &description.out, &description.out, &preference, kCublasLtAlgorithms,
                      results.data(), &found) == CUBLAS_STATUS_SUCCESS;
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; asked && i < found; ++i) {
    if (results[static_cast<size_t>(i)].state == CUBLAS_STATUS_SUCCESS) {
      algorithms.push_back(results[static_cast<size_t>(i)].algo);
    }
  }
  return algorithms;
}

// Algorithms of the shapes seen so far.
class AlgorithmCache {
 public:
  // False: there is none.
  bool find(const Library& l, const MatrixProduct& p, Description& description, int choice,
            cublasLtMatmulAlgo_t& algorithm) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto [at, added] = algorithms_.try_emplace(key_of(p));
    if (added) {
      at->second = ask(l, p, description);
    }
    if (at->second.empty()) {
      return false;
    }
    const auto last = static_cast<int>(at->second.size()) - 1;
    algorithm = at->second[static_cast<size_t>(std::min(choice, last))];
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::vector<cublasLtMatmulAlgo_t>> algorithms_;
};

}  // namespace

bool has_cublaslt() { return library().handle != nullptr; }

cudaError_t cublaslt_product(const MatrixProduct& product, int choice, std::byte* workspace,
                             cudaStream_t stream) {
  static AlgorithmCache cache;
  const Library& l = library();
  Description description;
  cublasLtMatmulAlgo_t algorithm;
  if (l.handle == nullptr || !description.init(l, product) ||
      !cache.find(l, product, description, choice, algorithm)) {
    return cudaErrorNotSupported;
  }
  const float alpha = 1.0f;
  const float beta = product.c == nullptr ? 0.0f : 1.0f;
  const void* added = product.c == nullptr ? product.d : product.c;
  const cublasStatus_t status =
      l.matmul(l.handle, &description.operation, &alpha, product.b, &description.weights, product.a,
               &description.tokens, &beta, added, &description.out, product.d, &description.out,
               &algorithm, workspace, static_cast<size_t>(kCublasLtWorkspace), stream);
  return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
}

}  // namespace zonda::kernels::cuda
