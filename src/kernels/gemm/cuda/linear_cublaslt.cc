// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear_cublaslt.h"

#include <algorithm>

#include "kernels/gemm/cuda/cublaslt.h"
#include "kernels/gemm/cuda/matrix_ops.h"
#include "kernels/gemm/cuda/packed_layout.h"
#include "kernels/gemm/cuda/quantize_tokens.h"
#include "kernels/gemm/cuda/tactic_lists.h"

namespace zonda::kernels::cuda {
namespace {

using device::cuda::LaunchSite;

// Products that need a pass of ours behind cuBLASLt go in pieces that stay in the L2 cache.
constexpr int64_t kPieceBytes = int64_t{64} << 20;
// Of products of fp8: the tensor cores' own sums, as other engines choose too.
constexpr bool kFastAccumulation = true;

int64_t piece_tokens(const PackedLayout& layout) {
  int64_t tokens = 64;
  while (tokens < 2048 && tokens * 2 * layout.tiles * kTileRows * 4 <= kPieceBytes) {
    tokens *= 2;
  }
  return tokens;
}

// Parts of the workspace, in order: cuBLASLt's own, 16-bit weights, fp8 tokens and their scales,
// products of a piece.
struct Workspace {
  int64_t weights = 0;
  int64_t tokens = 0;
  int64_t products = 0;
  int64_t bytes = 0;
};

Workspace workspace_of(const PackedType& packed, int64_t max_tokens) {
  const PackedLayout layout = packed_layout(packed);
  const int64_t rows = int64_t{layout.tiles} * kTileRows;
  Workspace w;
  w.weights = kCublasLtWorkspace;
  w.tokens = w.weights;
  if (is_quantized(packed.type.format)) {
    w.tokens += padded_to(rows * layout.padded_cols * 2, 256);
  }
  w.products = w.tokens;
  if (packed.type.format == WeightFormat::kFloat8E4M3) {
    w.products += quantized_tokens_bytes(max_tokens, layout);
  }
  w.bytes = w.products + padded_to(std::min(max_tokens, piece_tokens(layout)) * rows * 4, 256);
  return w;
}

// Rows in packed order equal those of y, and nothing is left to do after the product.
bool is_plain(const LinearParams& params) {
  return params.packed.order == RowOrder::kStacked && params.bias == nullptr;
}

// In pieces of tokens: products in the workspace, then our own pass over them.
cudaError_t run_pieces(const LinearParams& params, MatrixProduct product, int choice,
                       std::byte* products, const LaunchSite& site) {
  const PackedLayout layout = packed_layout(params.packed);
  const bool pairs = can_gate_pairs(params);
  product.n = int64_t{layout.tiles} * kTileRows;
  product.d = products;
  product.d_stride = product.n;
  product.output = pairs ? params.activation : DType::kFloat32;
  const int64_t step = piece_tokens(layout);
  const auto* x = static_cast<const std::byte*>(product.a);
  const float* scales = product.a_scales;
  for (int64_t first = 0; first < params.num_tokens; first += step) {
    const int64_t count = std::min(step, params.num_tokens - first);
    product.m = count;
    product.a = x + first * product.a_stride * dtype_size(product.input);
    product.a_scales = scales == nullptr ? nullptr : scales + first;
    cudaError_t status = cublaslt_product(product, choice, params.workspace, site.stream);
    if (status != cudaSuccess) {
      return status;
    }
    status =
        pairs ? gate_pairs(params, products, first, count, site)
              : finish_sums(params, reinterpret_cast<const float*>(products), first, count, site);
    if (status != cudaSuccess) {
      return status;
    }
  }
  return cudaSuccess;
}

cudaError_t run_product(const LinearParams& params, int choice, const LaunchSite& site) {
  const WeightType& type = params.packed.type;
  const PackedLayout layout = packed_layout(params.packed);
  const Workspace places = workspace_of(params.packed, params.num_tokens);
  MatrixProduct product;
  product.a = params.x;
  product.b = params.weights;
  product.d = params.y;
  product.m = params.num_tokens;
  product.n = type.rows;
  product.k = type.cols;
  product.a_stride = params.x_stride;
  product.b_stride = layout.padded_cols;
  product.d_stride = params.y_stride;
  product.input = params.activation;
  product.output = params.float32_output ? DType::kFloat32 : params.activation;
  if (is_quantized(type.format)) {
    std::byte* weights = params.workspace + places.weights;
    const cudaError_t status =
        dequantize(params.packed, params.weights, params.activation, weights, site);
    if (status != cudaSuccess) {
      return status;
    }
    product.b = weights;
  }
  if (!is_plain(params)) {
    return run_pieces(params, product, choice, params.workspace + places.products, site);
  }
  product.c = params.epilogue == Epilogue::kAddResidual ? params.residual : nullptr;
  return cublaslt_product(product, choice, params.workspace, site.stream);
}

// fp8 weights with tokens made fp8, normalised on the way if asked for.
cudaError_t run_fp8_product(const LinearParams& params, int choice, const LaunchSite& site) {
  const WeightType& type = params.packed.type;
  const PackedLayout layout = packed_layout(params.packed);
  const Workspace places = workspace_of(params.packed, params.num_tokens);
  const QuantizedTokens tokens =
      place_tokens(params.workspace + places.tokens, params.num_tokens, layout);
  if (const cudaError_t status = quantize_tokens(tokens_of(params, tokens), site);
      status != cudaSuccess) {
    return status;
  }
  MatrixProduct product;
  product.a = tokens.codes;
  product.b = params.weights;
  product.d = params.y;
  product.m = params.num_tokens;
  product.n = type.rows;
  product.k = product.a_stride = product.b_stride = layout.padded_cols;
  product.d_stride = params.y_stride;
  product.input = DType::kFloat8E4M3;
  product.output = params.float32_output ? DType::kFloat32 : params.activation;
  product.a_scales = tokens.scales;
  product.b_scales = reinterpret_cast<const float*>(params.weights + layout.scale_offset);
  product.fast_accumulation = kFastAccumulation;
  if (is_plain(params)) {
    product.c = params.epilogue == Epilogue::kAddResidual ? params.residual : nullptr;
    const cudaError_t status = cublaslt_product(product, choice, params.workspace, site.stream);
    if (status != cudaErrorNotSupported) {
      return status;
    }
    product.c = nullptr;  // what it may not take is the residual, or a width
  }
  return run_pieces(params, product, choice, params.workspace + places.products, site);
}

template <int kChoice>
cudaError_t run_fp8(const LinearParams& params, const LaunchSite& site) {
  const cudaError_t status = run_fp8_product(params, kChoice, site);
  return status == cudaErrorNotSupported
             ? mma_tactics(params.packed.type.format).back().run(params, site)
             : status;
}

template <int kChoice>
cudaError_t run_cublaslt(const LinearParams& params, const LaunchSite& site) {
  if (params.norm_weight != nullptr) {
    return cudaErrorInvalidValue;
  }
  const cudaError_t status = run_product(params, kChoice, site);
  return status == cudaErrorNotSupported
             ? mma_tactics(params.packed.type.format).back().run(params, site)
             : status;
}

constexpr LinearTactic kFloatTactics[] = {
    {"cublaslt_0", 9, kAnyTokens, false, false, run_cublaslt<0>},
    {"cublaslt_1", 9, kAnyTokens, false, false, run_cublaslt<1>},
    {"cublaslt_2", 9, kAnyTokens, false, false, run_cublaslt<2>},
    {"cublaslt_3", 9, kAnyTokens, false, false, run_cublaslt<3>},
    {"cublaslt_4", 65, kAnyTokens, false, false, run_cublaslt<4>},
    {"cublaslt_5", 65, kAnyTokens, false, false, run_cublaslt<5>},
};
constexpr LinearTactic kIntegerTactics[] = {
    {"cublaslt_0", 65, kAnyTokens, false, false, run_cublaslt<0>},
    {"cublaslt_1", 65, kAnyTokens, false, false, run_cublaslt<1>},
    {"cublaslt_2", 65, kAnyTokens, false, false, run_cublaslt<2>},
    {"cublaslt_3", 65, kAnyTokens, false, false, run_cublaslt<3>},
};
constexpr LinearTactic kFp8Tactics[] = {
    {"cublaslt_fp8_0", 9, kAnyTokens, true, false, run_fp8<0>},
    {"cublaslt_fp8_1", 9, kAnyTokens, true, false, run_fp8<1>},
    {"cublaslt_fp8_2", 9, kAnyTokens, true, false, run_fp8<2>},
    {"cublaslt_fp8_3", 9, kAnyTokens, true, false, run_fp8<3>},
    {"cublaslt_fp8_4", 65, kAnyTokens, true, false, run_fp8<4>},
    {"cublaslt_fp8_5", 65, kAnyTokens, true, false, run_fp8<5>},
    // For devices without products of fp8.
    {"cublaslt_0", 65, kAnyTokens, false, false, run_cublaslt<0>},
    {"cublaslt_1", 65, kAnyTokens, false, false, run_cublaslt<1>},
};

}  // namespace

int64_t cublaslt_workspace_bytes(const PackedType& packed, int64_t max_tokens) {
  const std::span<const LinearTactic> tactics = cublaslt_tactics(packed.type.format);
  const bool used = !tactics.empty() && max_tokens >= tactics.front().min_tokens;
  return used ? workspace_of(packed, max_tokens).bytes : 0;
}

std::span<const LinearTactic> cublaslt_tactics(WeightFormat format) {
  if (!has_cublaslt()) {
    return {};
  }
  if (format == WeightFormat::kFloat8E4M3) {
    return kFp8Tactics;
  }
  if (is_quantized(format)) {
    return kIntegerTactics;
  }
  return kFloatTactics;
}

}  // namespace zonda::kernels::cuda
