// Laws of RMSNorm: the formula, and equal bits on every instruction set and thread count.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/isa_levels.h"

namespace zonda::kernels {
namespace {

constexpr int64_t kSizes[] = {1, 7, 15, 16, 17, 31, 64, 100, 576, 2048, 4099};
constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

struct Case {
  int64_t rows;
  int64_t size;
  int64_t x_stride;
  int64_t y_stride;
  std::vector<float> x;
  std::vector<float> weight;

  Case(int64_t num_rows, int64_t row_size, uint32_t seed)
      : rows(num_rows),
        size(row_size),
        x_stride(row_size + 3),
        y_stride(row_size + 5),
        x(static_cast<size_t>(rows * x_stride), kPoison),
        weight(static_cast<size_t>(size)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < size; ++i) {
        x[static_cast<size_t>(r * x_stride + i)] = normal(random) * 3.0f;
      }
    }
    for (float& w : weight) {
      w = normal(random);
    }
  }

  RmsNormParams params(std::vector<float>& y) const {
    return {.x = x.data(),
            .weight = weight.data(),
            .y = y.data(),
            .num_rows = rows,
            .size = size,
            .x_stride = x_stride,
            .y_stride = y_stride,
            .eps = 1e-5f};
  }
  std::vector<float> poisoned_output() const {
    return std::vector<float>(static_cast<size_t>(rows * y_stride), kPoison);
  }
};

TEST(RmsNorm, ReferenceIsTheFormulaInDoublePrecision) {
  for (const int64_t size : kSizes) {
    const Case c(3, size, 1);
    std::vector<float> y = c.poisoned_output();
    rms_norm_reference(c.params(y));
    for (int64_t r = 0; r < c.rows; ++r) {
      double squares = 0;
      for (int64_t i = 0; i < size; ++i) {
        squares += std::pow(double{c.x[static_cast<size_t>(r * c.x_stride + i)]}, 2);
      }
      const double rms = std::sqrt(squares / static_cast<double>(size) + double{1e-5f});
      for (int64_t i = 0; i < size; ++i) {
        const double expected = double{c.x[static_cast<size_t>(r * c.x_stride + i)]} / rms *
                                double{c.weight[static_cast<size_t>(i)]};
        EXPECT_NEAR(y[static_cast<size_t>(r * c.y_stride + i)], expected,
                    1e-6 * std::abs(expected) + 1e-30);
      }
      for (int64_t i = size; i < c.y_stride; ++i) {
        EXPECT_TRUE(std::isnan(y[static_cast<size_t>(r * c.y_stride + i)]));
      }
    }
  }
}

TEST(RmsNorm, EveryIsaAndThreadCountGivesTheBitsOfTheReference) {
  for (const int threads : {1, 2, 3}) {
    device::ThreadPool pool(threads);
    for (const device::CpuIsa isa : isa_levels()) {
      device::Stream stream(pool, isa);
      for (const int64_t size : kSizes) {
        const Case c(size < 1000 ? 70 : 9, size, 2);
        std::vector<float> expected(static_cast<size_t>(c.rows * c.y_stride), 7.0f);
        std::vector<float> y = expected;
        rms_norm_reference(c.params(expected));
        rms_norm(c.params(y), stream);
        EXPECT_EQ(y, expected) << device::cpu_isa_name(isa) << " size " << size;
      }
    }
  }
}

TEST(RmsNorm, OutputMayOverwriteItsInput) {
  device::ThreadPool pool(2);
  for (const device::CpuIsa isa : isa_levels()) {
    device::Stream stream(pool, isa);
    Case c(40, 579, 3);
    std::vector<float> expected(c.x.size(), 0.0f);
    RmsNormParams params = c.params(expected);
    params.y_stride = c.x_stride;
    rms_norm(params, stream);
    params.y = c.x.data();
    rms_norm(params, stream);
    for (int64_t r = 0; r < c.rows; ++r) {
      for (int64_t i = 0; i < c.size; ++i) {
        const auto at = static_cast<size_t>(r * c.x_stride + i);
        ASSERT_EQ(c.x[at], expected[at]);
      }
    }
  }
}

TEST(RmsNorm, ARowOfZerosStaysZero) {
  device::ThreadPool pool(1);
  const std::vector<float> zeros(20, 0.0f);
  const std::vector<float> weight(20, 2.0f);
  for (const device::CpuIsa isa : isa_levels()) {
    device::Stream stream(pool, isa);
    std::vector<float> y(20, kPoison);
    rms_norm({.x = zeros.data(),
              .weight = weight.data(),
              .y = y.data(),
              .num_rows = 1,
              .size = 20,
              .x_stride = 20,
              .y_stride = 20,
              .eps = 1e-6f},
             stream);
    EXPECT_EQ(y, zeros);
  }
}

}  // namespace
}  // namespace zonda::kernels
