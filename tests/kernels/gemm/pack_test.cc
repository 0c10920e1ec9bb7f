// Packing keeps every value.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/gemm/linear_fixture.h"

namespace zonda::kernels {
namespace {

using testing::all_formats;
using testing::case_name;
using testing::FormatCase;
using testing::must_allocate;
using testing::must_pack;
using testing::RandomMatrix;

void expect_rows_equal(const PackedType& packed, const device::Buffer& weights,
                       const RandomMatrix& source, int64_t first_row) {
  const WeightType& type = source.view().type;
  std::vector<float> expected(static_cast<size_t>(type.cols));
  std::vector<float> found(static_cast<size_t>(type.cols));
  for (int64_t row = 0; row < type.rows; ++row) {
    dequantize_row(source.view(), row, expected.data());
    unpack_row(packed, weights.data(), first_row + row, found.data());
    ASSERT_EQ(std::memcmp(expected.data(), found.data(), expected.size() * 4), 0)
        << "row " << row << " of the source at " << first_row;
  }
}

TEST(PackWeights, UnpackedRowEqualsDequantizedRow) {
  for (const FormatCase& format : all_formats()) {
    for (const auto& [rows, cols] : {std::pair{1, 1}, {16, 32}, {17, 33}, {40, 200}, {31, 129}}) {
      SCOPED_TRACE(case_name(format) + " " + std::to_string(rows) + "x" + std::to_string(cols));
      const RandomMatrix matrix(format, rows, cols, 7);
      const PackedType packed{matrix.view().type, RowOrder::kStacked};
      expect_rows_equal(packed, must_pack(packed, {&matrix.view(), 1}), matrix, 0);
    }
  }
}

TEST(PackWeights, StackedSourcesFollowEachOther) {
  for (const FormatCase& format : all_formats()) {
    SCOPED_TRACE(case_name(format));
    const RandomMatrix a(format, 21, 96, 1);
    const RandomMatrix b(format, 7, 96, 2);
    const RandomMatrix c(format, 30, 96, 3);
    PackedType packed{a.view().type, RowOrder::kStacked};
    packed.type.rows = 58;
    const device::Buffer weights =
        must_pack(packed, std::vector<WeightView>{a.view(), b.view(), c.view()});
    expect_rows_equal(packed, weights, a, 0);
    expect_rows_equal(packed, weights, b, 21);
    expect_rows_equal(packed, weights, c, 28);
  }
}

TEST(PackWeights, InterleavedSourcesKeepTheirRowNumbers) {
  for (const FormatCase& format : all_formats()) {
    SCOPED_TRACE(case_name(format));
    const RandomMatrix a(format, 37, 70, 1);
    const RandomMatrix b(format, 37, 70, 2);
    PackedType packed{a.view().type, RowOrder::kInterleaved};
    packed.type.rows = 74;
    const device::Buffer weights = must_pack(packed, std::vector<WeightView>{a.view(), b.view()});
    expect_rows_equal(packed, weights, a, 0);
    expect_rows_equal(packed, weights, b, 37);
  }
}

TEST(PackWeights, RefusalNamesTheDifferingField) {
  const RandomMatrix a({WeightFormat::kInt8, 32, false}, 8, 64, 1);
  const auto message_for = [&](auto&& change) {
    PackedType packed{a.view().type, RowOrder::kStacked};
    change(packed);
    device::Buffer out = must_allocate(1 << 16);
    const Result<void> result = pack_weights(packed, {&a.view(), 1}, out.data());
    EXPECT_FALSE(result.ok());
    return result.ok() ? std::string() : result.error().message;
  };
  EXPECT_NE(message_for([](PackedType& p) { p.type.format = WeightFormat::kInt4; }).find("format"),
            std::string::npos);
  EXPECT_NE(message_for([](PackedType& p) { p.type.cols = 63; }).find("cols"), std::string::npos);
  EXPECT_NE(message_for([](PackedType& p) { p.type.group_size = 64; }).find("group_size"),
            std::string::npos);
  EXPECT_NE(message_for([](PackedType& p) { p.type.has_minimum = true; }).find("has_minimum"),
            std::string::npos);
  EXPECT_NE(message_for([](PackedType& p) { p.type.rows = 9; }).find("rows"), std::string::npos);
  EXPECT_NE(
      message_for([](PackedType& p) { p.order = RowOrder::kInterleaved; }).find("two sources"),
      std::string::npos);
}

}  // namespace
}  // namespace zonda::kernels
