// Values of the cache's element types as bytes, on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

namespace zonda::test {

// Writes `value`, rounded to nearest (fp8 saturates), as element `at` of `base`.
inline void put_element(uint8_t* base, int64_t at, float value, DType dtype) {
  if (dtype == DType::kFloat8E4M3) {
    base[at] = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
    return;
  }
  const uint16_t bits = dtype == DType::kBFloat16 ? float_to_bf16(value) : float_to_f16(value);
  std::memcpy(base + 2 * at, &bits, 2);
}

inline float element(const uint8_t* base, int64_t at, DType dtype) {
  if (dtype == DType::kFloat8E4M3) {
    return f16_to_float(__nv_cvt_fp8_to_halfraw(base[at], __NV_E4M3).x);
  }
  uint16_t bits = 0;
  std::memcpy(&bits, base + 2 * at, 2);
  return dtype == DType::kBFloat16 ? bf16_to_float(bits) : f16_to_float(bits);
}

inline float rounded(float value, DType dtype) {
  uint8_t bytes[2];
  put_element(bytes, 0, value, dtype);
  return element(bytes, 0, dtype);
}

// The largest error of rounding `value` to nearest: half a unit of its last place, which is
// relative to the power of two below it.
inline double half_unit(double value, DType dtype) {
  const int bits = dtype == DType::kBFloat16 ? 7 : dtype == DType::kFloat16 ? 10 : 3;
  const int smallest = dtype == DType::kBFloat16 ? -126 : dtype == DType::kFloat16 ? -14 : -6;
  const int exponent = value == 0 ? smallest : std::max(std::ilogb(value), smallest);
  return std::ldexp(1.0, exponent - bits - 1);
}

}  // namespace zonda::test
