// Loops that are written out at compile time, so that small arrays of vectors stay in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace zonda::kernels {

// body(0), body(1), ..., body(kCount - 1), with constants as arguments.
template <int kCount, class Body>
inline void unrolled(Body&& body) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (body(std::integral_constant<int, kIndex>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

}  // namespace zonda::kernels
