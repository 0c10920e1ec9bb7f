// Quantisation of one row: integers group by group, fp8 with one scale.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/weight_format.h"
#include "zonda/error.h"

namespace zonda::convert {

// Where one row goes; shapes as in WeightView for a single row.
struct QuantizedRow {
  uint8_t* data = nullptr;
  uint16_t* scales = nullptr;  // [groups] float16
  uint16_t* minima = nullptr;  // [groups] float16, with minimum only
};

// values: [type.cols], finite. The scale is rounded to float16 first and the integers are the
// nearest to value / rounded scale. int8 takes amax / 127; int4 tries a few scales around amax / 7
// and the signed extreme / -8 and keeps the one with the least squared error. With minimum the
// range of the group is spread over all integers. False if a scale or minimum overflows float16.
bool quantize_row(std::span<const float> values, const WeightType& type, const QuantizedRow& out);

// The scale that brings a largest magnitude to 448; positive even for zeros.
float fp8_scale(float largest);
// out: [values.size()] codes of e4m3 nearest to value / scale; beyond 448 they become 448.
void quantize_fp8(std::span<const float> values, float scale, uint8_t* out);
float largest_magnitude(std::span<const float> values);

}  // namespace zonda::convert
