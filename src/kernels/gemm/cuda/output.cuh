// What happens to a finished float32 sum: bias, residual, gate, rounding, store.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm/cuda/linear.h"
#include "kernels/gemm/cuda/packed_layout.h"

namespace zonda::kernels::cuda {

struct Output {
  const float* bias = nullptr;     // [rows] or null
  const void* residual = nullptr;  // as y
  void* y = nullptr;
  int64_t y_stride = 0;
  int64_t num_tokens = 0;
  Epilogue epilogue = Epilogue::kStore;
  bool float32_output = false;
};

inline Output output_of(const LinearParams& params) {
  return {params.bias,     params.residual,      params.y, params.y_stride, params.num_tokens,
          params.epilogue, params.float32_output};
}

// Also of a kernel parameter, so no constexpr call on it.
__device__ __forceinline__ bool is_gated_output(const Output& output) {
  return output.epilogue == Epilogue::kGatedSilu || output.epilogue == Epilogue::kGatedGeluTanh;
}

__device__ __forceinline__ float gate(Epilogue epilogue, float a, float b) {
  if (epilogue == Epilogue::kGatedSilu) {
    return a / (1.0f + __expf(-a)) * b;
  }
  const float inner = 0.7978845608028654f * (a + 0.044715f * a * a * a);
  return 0.5f * a * (1.0f + tanhf(inner)) * b;
}

template <class Element>
__device__ __forceinline__ void store_value(const Output& output, int64_t at, float value) {
  if (output.float32_output) {
    static_cast<float*>(output.y)[at] = value;
  } else {
    static_cast<typename Element::Value*>(output.y)[at] = Element::from_float(value);
  }
}

// The residual of row `row` of tile `tile`; 0 where there is none.
template <class Element>
__device__ __forceinline__ float load_residual(const Output& output, const PackedLayout& layout,
                                               int64_t token, int32_t tile, int32_t row) {
  const int32_t column = row_column(layout, tile, row);
  if (output.epilogue != Epilogue::kAddResidual || tile >= layout.tiles || column < 0 ||
      token >= output.num_tokens) {
    return 0.0f;
  }
  const auto* residual = static_cast<const typename Element::Value*>(output.residual);
  return Element::to_float(residual[token * output.y_stride + column]);
}

// kStore and kAddResidual: `sum` of row `row` of tile `tile`, to which `residual` is added; nothing
// for padding rows.
template <class Element>
__device__ __forceinline__ void store_sum(const Output& output, const PackedLayout& layout,
                                          int64_t token, int32_t tile, int32_t row, float sum,
                                          float residual) {
  const int32_t column = row_column(layout, tile, row);
  if (tile >= layout.tiles || column < 0 || token >= output.num_tokens) {
    return;
  }
  if (output.bias != nullptr) {
    sum += output.bias[column];
  }
  if (output.epilogue == Epilogue::kAddResidual) {
    sum = residual + sum;
  }
  store_value<Element>(output, token * output.y_stride + column, sum);
}

template <class Element>
__device__ __forceinline__ void store_sum(const Output& output, const PackedLayout& layout,
                                          int64_t token, int32_t tile, int32_t row, float sum) {
  store_sum<Element>(output, layout, token, tile, row, sum,
                     load_residual<Element>(output, layout, token, tile, row));
}

// Gated: `a` and `b` are the sums of row `row` of tiles 2 * pair and 2 * pair + 1.
template <class Element>
__device__ __forceinline__ void store_gated(const Output& output, const PackedLayout& layout,
                                            int64_t token, int32_t pair, int32_t row, float a,
                                            float b) {
  const int32_t column = row_column(layout, 2 * pair, row);
  if (2 * pair >= layout.tiles || column < 0 || token >= output.num_tokens) {
    return;
  }
  if (output.bias != nullptr) {
    a += output.bias[column];
    b += output.bias[layout.source_rows + column];
  }
  store_value<Element>(output, token * output.y_stride + column, gate(output.epilogue, a, b));
}

}  // namespace zonda::kernels::cuda
