// Laws of sums, gated products and row copies on the GPU: the CPU's values, for every length.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/cuda/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "device/cuda/device_array.h"
#include "device/cuda/gpu_test.h"
#include "kernels/activation_bits.h"
#include "kernels/elementwise/elementwise.h"

namespace zonda::kernels {
namespace {

constexpr DType kDtypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32};
constexpr size_t kCounts[] = {1, 7, 8, 1024, 1031, 14336, 300000};

class ElementwiseCuda : public test::GpuTest {
 protected:
  device::ThreadPool pool_{1};
  device::Stream cpu_{pool_};
};

TEST_F(ElementwiseCuda, ASumIsRoundedOnce) {
  std::mt19937 random(1);
  for (const DType dtype : kDtypes) {
    for (const size_t count : kCounts) {
      const auto a = test::to_bits(test::random_normal(random, count, 3.0f), dtype);
      const auto b = test::to_bits(test::random_normal(random, count, 1.0f), dtype);
      const auto values_a = test::to_values(a, dtype);
      const auto values_b = test::to_values(b, dtype);
      std::vector<float> sum(count);
      kernels::add({.a = values_a.data(),
                    .b = values_b.data(),
                    .y = sum.data(),
                    .count = static_cast<int64_t>(count)},
                   cpu_);
      test::DeviceArray<uint8_t> device_a(a);
      test::DeviceArray<uint8_t> device_b(b);
      test::DeviceArray<uint8_t> device_y(a.size());
      for (uint8_t* y : {device_y.data(), device_a.data()}) {
        ASSERT_EQ(cuda::add({.a = device_a.data(),
                             .b = device_b.data(),
                             .y = y,
                             .count = static_cast<int64_t>(count),
                             .activation = dtype},
                            {}),
                  cudaSuccess);
      }
      EXPECT_EQ(device_y.read(), test::to_bits(sum, dtype)) << dtype_name(dtype) << " " << count;
      EXPECT_EQ(device_a.read(), test::to_bits(sum, dtype)) << "in place";
    }
  }
}

TEST_F(ElementwiseCuda, GatedProductsEqualTheCpuUpToRounding) {
  std::mt19937 random(2);
  for (const DType dtype : kDtypes) {
    for (const size_t count : kCounts) {
      const auto a = test::to_bits(test::random_normal(random, count, 4.0f), dtype);
      const auto b = test::to_bits(test::random_normal(random, count, 1.0f), dtype);
      const auto values_a = test::to_values(a, dtype);
      const auto values_b = test::to_values(b, dtype);
      for (const Epilogue kind : {Epilogue::kGatedSilu, Epilogue::kGatedGeluTanh}) {
        std::vector<float> expected(count);
        kernels::gated({.a = values_a.data(),
                        .b = values_b.data(),
                        .y = expected.data(),
                        .count = static_cast<int64_t>(count)},
                       kind, cpu_);
        test::DeviceArray<uint8_t> device_a(a);
        test::DeviceArray<uint8_t> device_b(b);
        test::DeviceArray<uint8_t> device_y(a.size());
        ASSERT_EQ(cuda::gated({.a = device_a.data(),
                               .b = device_b.data(),
                               .y = device_y.data(),
                               .count = static_cast<int64_t>(count),
                               .activation = dtype},
                              kind, {.stream = nullptr, .dependent = true}),
                  cudaSuccess);
        const auto y = test::to_values(device_y.read(), dtype);
        for (size_t i = 0; i < count; ++i) {
          // The exponential's argument carries a rounding error that grows with it.
          ASSERT_NEAR(y[i], expected[i],
                      std::abs(expected[i]) * (test::rounding_bound(dtype) + 1e-5f) + 1e-7f)
              << values_a[i] << " and " << values_b[i] << " " << dtype_name(dtype);
        }
      }
    }
  }
}

TEST_F(ElementwiseCuda, OnlyGatedActivationsAndFloatsAreTaken) {
  EXPECT_EQ(cuda::gated({}, Epilogue::kStore, {}), cudaErrorInvalidValue);
  EXPECT_EQ(cuda::add({.count = 1, .activation = DType::kInt8}, {}), cudaErrorInvalidValue);
  EXPECT_EQ(cuda::add({.count = 0}, {}), cudaSuccess);
}

TEST_F(ElementwiseCuda, ChosenRowsAreCopiedBitForBit) {
  std::mt19937 random(3);
  for (const DType dtype : kDtypes) {
    const auto width = static_cast<size_t>(dtype_size(dtype));
    for (const size_t size : {size_t{4096}, size_t{8}, size_t{33}, size_t{1000}}) {
      for (const size_t padding : {size_t{0}, size_t{8}}) {
        const size_t stride = size + padding;
        const size_t source_rows = 40;
        std::vector<uint8_t> x(source_rows * stride * width);
        std::generate(x.begin(), x.end(), [&] { return static_cast<uint8_t>(random()); });
        std::vector<int32_t> rows(70);
        std::generate(rows.begin(), rows.end(),
                      [&] { return static_cast<int32_t>(random() % source_rows); });
        test::DeviceArray<uint8_t> device_x(x);
        test::DeviceArray<int32_t> device_rows(rows);
        test::DeviceArray<uint8_t> device_y(rows.size() * size * width);
        ASSERT_EQ(cuda::select_rows({.x = device_x.data(),
                                     .rows = device_rows.data(),
                                     .y = device_y.data(),
                                     .num_rows = static_cast<int64_t>(rows.size()),
                                     .size = static_cast<int64_t>(size),
                                     .x_stride = static_cast<int64_t>(stride),
                                     .activation = dtype},
                                    {.stream = nullptr, .dependent = true}),
                  cudaSuccess);
        const auto y = device_y.read();
        for (size_t i = 0; i < rows.size(); ++i) {
          const auto from =
              x.begin() + static_cast<int64_t>(rows[i]) * static_cast<int64_t>(stride * width);
          ASSERT_TRUE(std::equal(from, from + static_cast<int64_t>(size * width),
                                 y.begin() + static_cast<int64_t>(i * size * width)))
              << "row " << i << " of " << size << " " << dtype_name(dtype);
        }
      }
    }
  }
}

}  // namespace
}  // namespace zonda::kernels
