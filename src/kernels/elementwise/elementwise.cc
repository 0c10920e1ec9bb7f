// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/elementwise.h"

#include "base/error.h"
#include "kernels/gemm/epilogue_math.h"
#include "kernels/vector/scalar.h"

namespace zonda::kernels {
namespace {

constexpr int64_t kGrain = 4096;  // elements below which another thread does not pay

template <typename Function>
void for_each(const ElementwiseParams& params, device::Stream& stream, Function function) {
  stream.pool().parallel_for(params.count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      params.y[i] = function(params.a[i], params.b[i]);
    }
  });
}

}  // namespace

void add(const ElementwiseParams& params, device::Stream& stream) {
  for_each(params, stream, [](float a, float b) { return a + b; });
}

void gated(const ElementwiseParams& params, Epilogue activation, device::Stream& stream) {
  CHECK(is_gated(activation));
  if (activation == Epilogue::kGatedSilu) {
    for_each(params, stream,
             [](float a, float b) { return gated_value<Scalar>(Epilogue::kGatedSilu, a, b); });
  } else {
    for_each(params, stream,
             [](float a, float b) { return gated_value<Scalar>(Epilogue::kGatedGeluTanh, a, b); });
  }
}

}  // namespace zonda::kernels
