// The gated activations, written once over a vector type so that every instruction set and the
// reference give the same bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation/exp.h"
#include "kernels/gemm/linear.h"

namespace zonda::kernels {

// silu(a) * b, or gelu_tanh(a) * b.
template <class V>
typename V::F gated_value(Epilogue epilogue, typename V::F a, typename V::F b) {
  const auto activated = epilogue == Epilogue::kGatedGeluTanh ? gelu_tanh<V>(a) : silu<V>(a);
  return V::mul(activated, b);
}

[[gnu::always_inline]] constexpr bool is_gated(Epilogue epilogue) {
  return epilogue == Epilogue::kGatedSilu || epilogue == Epilogue::kGatedGeluTanh;
}

}  // namespace zonda::kernels
