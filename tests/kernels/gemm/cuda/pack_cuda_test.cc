// The packed layout on the host, and what gathers and random weights make of it on the device.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <numeric>

#include "device/cuda/device_array.h"
#include "device/cuda/gpu_test.h"
#include "kernels/gemm/cuda/linear.h"
#include "kernels/gemm/cuda/packed_layout.h"
#include "kernels/gemm/linear_fixture.h"

namespace zonda::kernels {
namespace {

using cuda::PackedLayout;
using cuda::TileRow;
using testing::cuda_formats;
using testing::FormatCase;
using testing::RandomMatrix;

PackedType stacked(const FormatCase& format, int64_t rows, int64_t cols) {
  return {{format.format, rows, cols, format.group_size, format.has_minimum}, RowOrder::kStacked};
}

std::vector<std::byte> pack(const PackedType& packed, std::span<const WeightView> sources) {
  std::vector<std::byte> bytes(static_cast<size_t>(cuda::packed_bytes(packed)), std::byte{0xff});
  EXPECT_TRUE(cuda::pack_weights(packed, sources, bytes.data()).ok());
  return bytes;
}

float half_at(const std::vector<std::byte>& bytes, int64_t at) {
  uint16_t bits;
  std::memcpy(&bits, bytes.data() + at, 2);
  return f16_to_float(bits);
}

// Read back through the layout's own words.
float packed_value(const PackedType& packed, const std::vector<std::byte>& bytes, TileRow at,
                   int32_t k) {
  const PackedLayout layout = cuda::packed_layout(packed);
  if (packed.type.format == WeightFormat::kFloat8E4M3) {
    float scale;
    std::memcpy(&scale, bytes.data() + cuda::fp8_scale_place(layout, at), sizeof(scale));
    const auto place = static_cast<size_t>(cuda::fp8_place(layout, at, k));
    return scale * f8e4m3_to_float(static_cast<uint8_t>(bytes[place]));
  }
  if (!is_quantized(packed.type.format)) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + cuda::float_place(layout, at, k) * 2, 2);
    return packed.type.format == WeightFormat::kBFloat16 ? bf16_to_float(bits) : f16_to_float(bits);
  }
  const int64_t place = cuda::integer_place(layout, at, k);
  const bool minimum = packed.type.has_minimum;
  int q = static_cast<int8_t>(bytes[static_cast<size_t>(place)]) + (minimum ? 128 : 0);
  if (packed.type.format == WeightFormat::kInt4) {
    uint32_t word;
    std::memcpy(&word, bytes.data() + place, 4);
    q = static_cast<int>(word >> cuda::int4_shift(at.row, k) & 15u) - (minimum ? 0 : 8);
  }
  const int64_t scale = cuda::scale_place(layout, at, k);
  const float scaled = half_at(bytes, scale) * static_cast<float>(q);
  return minimum ? scaled + half_at(bytes, scale + 4) : scaled;
}

TEST(PackCudaTest, KeepsEveryValue) {
  for (const FormatCase& format : cuda_formats()) {
    SCOPED_TRACE(testing::case_name(format));
    const RandomMatrix a(format, 19, 203, 1);
    const RandomMatrix b(format, 30, 203, 2);
    const PackedType packed = stacked(format, 49, 203);
    const WeightView views[] = {a.view(), b.view()};
    const std::vector<std::byte> bytes = pack(packed, views);
    EXPECT_EQ(bytes.size() % 256, 0u);
    std::vector<float> row(203);
    for (int64_t r = 0; r < 49; ++r) {
      dequantize_row(r < 19 ? a.view() : b.view(), r < 19 ? r : r - 19, row.data());
      for (int32_t k = 0; k < 203; ++k) {
        const TileRow at{static_cast<int32_t>(r / 16), static_cast<int32_t>(r % 16)};
        ASSERT_EQ(packed_value(packed, bytes, at, k), row[static_cast<size_t>(k)]) << r << " " << k;
      }
    }
  }
}

TEST(PackCudaTest, InterleavesTilesOfTwoSources) {
  for (const FormatCase& format : cuda_formats()) {
    SCOPED_TRACE(testing::case_name(format));
    const RandomMatrix a(format, 37, 130, 1);
    const RandomMatrix b(format, 37, 130, 2);
    PackedType packed = stacked(format, 74, 130);
    packed.order = RowOrder::kInterleaved;
    const WeightView views[] = {a.view(), b.view()};
    const std::vector<std::byte> bytes = pack(packed, views);
    const PackedLayout layout = cuda::packed_layout(packed);
    EXPECT_EQ(layout.tiles, 6);
    std::vector<float> row(130);
    for (int32_t tile = 0; tile < 6; ++tile) {
      for (int32_t r = 0; r < 16; ++r) {
        const int32_t in_source = tile / 2 * 16 + r;
        const int32_t column = cuda::row_column(layout, tile, r);
        ASSERT_EQ(column, in_source < 37 ? tile % 2 * 37 + in_source : -1);
        if (column < 0) {
          continue;
        }
        const TileRow back = cuda::find_row(layout, column);
        ASSERT_TRUE(back.tile == tile && back.row == r);
        dequantize_row(tile % 2 == 0 ? a.view() : b.view(), in_source, row.data());
        for (int32_t k = 0; k < 130; ++k) {
          ASSERT_EQ(packed_value(packed, bytes, back, k), row[static_cast<size_t>(k)]);
        }
      }
    }
  }
}

// No two values share a bit: each place is named once.
TEST(PackCudaTest, PlacesAreDistinct) {
  for (const FormatCase& format : cuda_formats()) {
    if (!is_quantized(format.format)) {
      continue;
    }
    SCOPED_TRACE(testing::case_name(format));
    const PackedLayout layout = cuda::packed_layout(stacked(format, 48, 384));
    std::vector<int> nibbles(static_cast<size_t>(layout.scale_offset * 2));
    for (int32_t r = 0; r < 48; ++r) {
      for (int32_t k = 0; k < 384; ++k) {
        const TileRow at{r / 16, r % 16};
        const bool is_fp8 = format.format == WeightFormat::kFloat8E4M3;
        const int64_t byte =
            is_fp8 ? cuda::fp8_place(layout, at, k) : cuda::integer_place(layout, at, k);
        if (format.format != WeightFormat::kInt4) {
          ++nibbles[static_cast<size_t>(byte * 2)];
          ++nibbles[static_cast<size_t>(byte * 2 + 1)];
        } else {
          ++nibbles[static_cast<size_t>(byte * 2 + cuda::int4_shift(at.row, k) / 4)];
        }
      }
    }
    EXPECT_EQ(nibbles, std::vector<int>(nibbles.size(), 1));
  }
}

TEST(PackCudaTest, OneScaleOfATensorBecomesThatOfEachRow) {
  const RandomMatrix matrix({WeightFormat::kFloat8E4M3}, 20, 100, 4);
  WeightView view = matrix.view();
  view.type.per_tensor = true;
  const PackedType packed = stacked({WeightFormat::kFloat8E4M3}, 20, 100);
  const std::vector<std::byte> bytes = pack(packed, {&view, 1});
  std::vector<float> row(100);
  for (int32_t r = 0; r < 20; ++r) {
    dequantize_row(view, r, row.data());
    for (int32_t k = 0; k < 100; ++k) {
      ASSERT_EQ(packed_value(packed, bytes, {r / 16, r % 16}, k), row[static_cast<size_t>(k)]);
    }
  }
}

TEST(PackCudaTest, RefusesWhatItCannotHold) {
  const RandomMatrix matrix({WeightFormat::kFloat32}, 16, 32, 1);
  PackedType packed{matrix.view().type, RowOrder::kStacked};
  std::vector<std::byte> bytes(8192);
  const WeightView views[] = {matrix.view()};
  EXPECT_EQ(cuda::pack_weights(packed, views, bytes.data()).error().code, ErrorCode::kUnsupported);
  packed.type.format = WeightFormat::kBFloat16;
  EXPECT_EQ(cuda::pack_weights(packed, views, bytes.data()).error().code,
            ErrorCode::kInvalidArgument);
}

class GatherRowsTest : public test::GpuTest {};

TEST_F(GatherRowsTest, EqualsTheRowRoundedOnce) {
  for (const FormatCase& format : cuda_formats()) {
    for (const DType activation : {DType::kBFloat16, DType::kFloat16}) {
      for (const int64_t cols : {int64_t{203}, int64_t{1184}}) {
        SCOPED_TRACE(testing::case_name(format));
        const RandomMatrix matrix(format, 50, cols, 3);
        const PackedType packed = stacked(format, 50, cols);
        const WeightView views[] = {matrix.view()};
        test::DeviceArray<std::byte> weights(pack(packed, views));
        const std::vector<int32_t> ids = {49, 0, 17, 17, 3};
        test::DeviceArray<int32_t> device_ids(ids);
        const int64_t stride = cols + 5;
        test::DeviceArray<uint16_t> y(static_cast<size_t>(5 * stride));
        cuda::GatherRowsParams params;
        params.weights = weights.data();
        params.ids = device_ids.data();
        params.y = y.data();
        params.num_tokens = 5;
        params.y_stride = stride;
        params.packed = packed;
        params.activation = activation;
        ASSERT_EQ(cuda::gather_rows(params, {}), cudaSuccess);
        const std::vector<uint16_t> out = y.read();
        std::vector<float> row(static_cast<size_t>(cols));
        for (size_t t = 0; t < 5; ++t) {
          dequantize_row(matrix.view(), ids[t], row.data());
          for (size_t k = 0; k < static_cast<size_t>(stride); ++k) {
            const uint16_t expected = k >= row.size()                  ? uint16_t{0xffff}
                                      : activation == DType::kBFloat16 ? float_to_bf16(row[k])
                                                                       : float_to_f16(row[k]);
            // The device may fuse scale * q + minimum: one more or less in the last place.
            const int difference = std::abs(int{out[t * stride + k]} - int{expected});
            ASSERT_LE(difference, format.has_minimum ? 1 : 0) << t << " " << k;
          }
        }
      }
    }
  }
}

class RandomWeightsTest : public test::GpuTest {};

TEST_F(RandomWeightsTest, HaveTheDeviationAndDependOnTheSeedAlone) {
  for (const FormatCase& format : cuda_formats()) {
    SCOPED_TRACE(testing::case_name(format));
    const PackedType packed = stacked(format, 250, 1000);
    const auto draw = [&](uint64_t seed) {
      test::DeviceArray<std::byte> weights(static_cast<size_t>(cuda::packed_bytes(packed)));
      EXPECT_EQ(cuda::random_weights(packed, seed, 0.02f, weights.data(), nullptr), cudaSuccess);
      return weights.read();
    };
    const std::vector<std::byte> bytes = draw(7);
    EXPECT_EQ(bytes, draw(7));
    EXPECT_NE(bytes, draw(8));
    double sum = 0, squares = 0;
    for (int32_t r = 0; r < 250; ++r) {
      for (int32_t k = 0; k < 1000; ++k) {
        const double value = packed_value(packed, bytes, {r / 16, r % 16}, k);
        sum += value;
        squares += value * value;
      }
    }
    EXPECT_NEAR(sum / 250e3, 0.0, 0.003);
    EXPECT_NEAR(std::sqrt(squares / 250e3), 0.02, 0.0006);
  }
}

}  // namespace
}  // namespace zonda::kernels
