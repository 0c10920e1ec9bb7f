// Laws of RMSNorm on the GPU: the reference's values, whatever the shape, alone or in a batch.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/cuda/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "device/cuda/device_array.h"
#include "device/cuda/gpu_test.h"
#include "kernels/activation_bits.h"
#include "kernels/norm/rms_norm.h"

namespace zonda::kernels {
namespace {

constexpr float kEps = 1e-5f;

struct Case {
  int64_t rows;
  int64_t size;
  int64_t padding;  // stride minus size, of x and y
};

class RmsNormCuda : public test::GpuTest {
 protected:
  // The bytes of y; x and y have the case's strides, or y is x.
  std::vector<uint8_t> norm(const Case& shape, const std::vector<uint8_t>& x,
                            const std::vector<float>& weight, DType dtype, bool in_place,
                            bool dependent) {
    test::DeviceArray<uint8_t> device_x(x);
    test::DeviceArray<uint8_t> device_y(x.size());
    test::DeviceArray<float> device_weight(weight);
    const int64_t stride = shape.size + shape.padding;
    auto& target = in_place ? device_x : device_y;
    EXPECT_EQ(cuda::rms_norm({.x = device_x.data(),
                              .weight = device_weight.data(),
                              .y = target.data(),
                              .num_rows = shape.rows,
                              .size = shape.size,
                              .x_stride = stride,
                              .y_stride = stride,
                              .eps = kEps,
                              .activation = dtype},
                             {.stream = nullptr, .dependent = dependent}),
              cudaSuccess);
    return target.read();
  }
};

TEST_F(RmsNormCuda, EqualsTheReferenceUpToRounding) {
  std::mt19937 random(1);
  const Case cases[] = {{1, 4096, 0},  {3, 4096, 64}, {5, 8, 0},      {2, 33, 0},    {2, 33, 3},
                        {4, 1000, 0},  {1, 8192, 8},  {2, 14336, 0},  {1, 20480, 0}, {1, 1, 0},
                        {1, 53248, 8}, {2, 16384, 0}, {1500, 256, 0}, {2, 4100, 4}};
  for (const Case& shape : cases) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
      const int64_t stride = shape.size + shape.padding;
      const auto bits = test::to_bits(
          test::random_normal(random, static_cast<size_t>(shape.rows * stride), 2.0f), dtype);
      const auto x = test::to_values(bits, dtype);
      const auto weight = test::random_normal(random, static_cast<size_t>(shape.size), 1.0f);
      std::vector<float> expected(x.size());
      rms_norm_reference({.x = x.data(),
                          .weight = weight.data(),
                          .y = expected.data(),
                          .num_rows = shape.rows,
                          .size = shape.size,
                          .x_stride = stride,
                          .y_stride = stride,
                          .eps = kEps});
      for (const bool in_place : {false, true}) {
        const auto raw = norm(shape, bits, weight, dtype, in_place, in_place);
        const auto y = test::to_values(raw, dtype);
        for (int64_t row = 0; row < shape.rows; ++row) {
          for (int64_t i = 0; i < shape.size; ++i) {
            const auto at = static_cast<size_t>(row * stride + i);
            // Sums of up to 53248 squares in another order; subnormal halves are rounded by an
            // absolute step.
            ASSERT_NEAR(y[at], expected[at],
                        std::abs(expected[at]) * (test::rounding_bound(dtype) + 1e-5f) + 1e-7f)
                << shape.rows << "x" << shape.size << " row " << row << " column " << i << " "
                << dtype_name(dtype);
          }
          for (int64_t i = shape.size; i < stride; ++i) {  // what lies between rows stays
            const auto width = static_cast<size_t>(dtype_size(dtype));
            const auto at = static_cast<size_t>(row * stride + i) * width;
            ASSERT_EQ(raw[at], in_place ? bits[at] : 0xff);
          }
        }
      }
    }
  }
}

TEST_F(RmsNormCuda, ARowDoesNotDependOnTheOthers) {
  std::mt19937 random(2);
  const Case many{2200, 4096, 0};
  const Case one{1, 4096, 0};
  const auto bits =
      test::to_bits(test::random_normal(random, static_cast<size_t>(many.rows * many.size), 1.0f),
                    DType::kBFloat16);
  const auto weight = test::random_normal(random, 4096, 1.0f);
  const auto all = norm(many, bits, weight, DType::kBFloat16, false, false);
  const int64_t row_bytes = many.size * 2;
  for (const int64_t row : {int64_t{0}, int64_t{1055}, int64_t{1056}, many.rows - 1}) {
    const std::vector<uint8_t> alone(bits.begin() + row * row_bytes,
                                     bits.begin() + (row + 1) * row_bytes);
    EXPECT_TRUE(std::equal(all.begin() + row * row_bytes, all.begin() + (row + 1) * row_bytes,
                           norm(one, alone, weight, DType::kBFloat16, false, true).begin()));
  }
}

TEST_F(RmsNormCuda, NoRowsAreDoneAndWrongShapesAreRefused) {
  cuda::RmsNormParams params{.num_rows = 0, .size = 8, .x_stride = 8, .y_stride = 8, .eps = kEps};
  EXPECT_EQ(cuda::rms_norm(params, {}), cudaSuccess);
  params.x_stride = 7;
  EXPECT_EQ(cuda::rms_norm(params, {}), cudaErrorInvalidValue);
  params.x_stride = 8;
  params.num_rows = 1;
  params.activation = DType::kInt8;
  EXPECT_EQ(cuda::rms_norm(params, {}), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace zonda::kernels
