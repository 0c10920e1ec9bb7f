// Random linears on the GPU and their sums in double, for the tests of CUDA tactics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/cuda/device_array.h"
#include "kernels/gemm/cuda/linear.h"
#include "kernels/gemm/linear_fixture.h"

namespace zonda::kernels::testing {

inline uint16_t to_bits16(DType dtype, float value) {
  return dtype == DType::kBFloat16 ? float_to_bf16(value) : float_to_f16(value);
}
inline float from_bits16(DType dtype, uint16_t bits) {
  return dtype == DType::kBFloat16 ? bf16_to_float(bits) : f16_to_float(bits);
}
// Half a unit in the last place, relative.
inline double rounding_of(DType dtype) { return dtype == DType::kBFloat16 ? 0x1p-8 : 0x1p-11; }

struct LinearShape {
  int64_t rows;  // of all sources together
  int64_t cols;
  RowOrder order = RowOrder::kStacked;
};

struct LinearCase {
  FormatCase format;
  DType activation = DType::kBFloat16;
  LinearShape shape;
  int64_t max_tokens = 1;
};

// Weights, tokens, bias, residual and norm weights of one case, on both sides.
class LinearScene {
 public:
  LinearScene(const LinearCase& c, uint32_t seed) : case_(c) {
    const int sources = c.shape.order == RowOrder::kInterleaved ? 2 : 1;
    std::vector<WeightView> views;
    for (int i = 0; i < sources; ++i) {
      matrices_.push_back(
          std::make_unique<RandomMatrix>(c.format, c.shape.rows / sources, c.shape.cols, seed + i));
      views.push_back(matrices_.back()->view());
    }
    packed_.type = views[0].type;
    packed_.type.rows = c.shape.rows;
    packed_.order = c.shape.order;
    std::vector<std::byte> bytes(static_cast<size_t>(cuda::packed_bytes(packed_)));
    EXPECT_TRUE(cuda::pack_weights(packed_, views, bytes.data()).ok());
    weights_ = std::make_unique<test::DeviceArray<std::byte>>(bytes);
    make_tokens(seed);
    make_sums();
  }

  const PackedType& packed() const { return packed_; }
  const LinearCase& spec() const { return case_; }
  int64_t x_stride() const { return x_stride_; }
  int64_t y_stride() const { return case_.shape.rows + 8; }
  // sum_k w * x, and sum_k |w * x|: [max_tokens][rows]; with_norm: x * norm weight in place of x.
  double sum(int64_t token, int64_t row, bool with_norm) const {
    return sums_[with_norm][static_cast<size_t>(token * case_.shape.rows + row)];
  }
  double magnitude(int64_t token, int64_t row, bool with_norm) const {
    return magnitudes_[with_norm][static_cast<size_t>(token * case_.shape.rows + row)];
  }
  double inverse_rms(int64_t token, double eps) const {
    return 1.0 / std::sqrt(mean_squares_[static_cast<size_t>(token)] + eps);
  }
  float bias(int64_t row) const { return bias_host_[static_cast<size_t>(row)]; }
  float residual(int64_t token, int64_t column) const {
    return from_bits16(case_.activation,
                       residual_host_[static_cast<size_t>(token * y_stride() + column)]);
  }

  // A call on tokens [first, first + count) without output or epilogue.
  cuda::LinearParams params(int64_t first, int64_t count) const {
    cuda::LinearParams params;
    params.x = x_->data() + first * x_stride_;
    params.weights = weights_->data();
    params.num_tokens = count;
    params.x_stride = x_stride_;
    params.y_stride = y_stride();
    params.packed = packed_;
    params.activation = case_.activation;
    return params;
  }
  const float* bias_data() const { return bias_->data(); }
  const float* norm_data() const { return norm_->data(); }
  const uint16_t* residual_data() const { return residual_->data(); }
  const std::vector<uint16_t>& residual_host() const { return residual_host_; }

 private:
  void make_tokens(uint32_t seed) {
    const int64_t cols = case_.shape.cols;
    x_stride_ = (cols + 7) / 8 * 8 + 16;
    const std::vector<float> values = random_floats(case_.max_tokens * x_stride_, seed + 100);
    // What lies behind cols is not a number, so that reading it shows.
    std::vector<uint16_t> bits(values.size(), 0x7fff);
    for (int64_t t = 0; t < case_.max_tokens; ++t) {
      double squares = 0;
      for (int64_t k = 0; k < cols; ++k) {
        const auto at = static_cast<size_t>(t * x_stride_ + k);
        bits[at] = to_bits16(case_.activation, values[at]);
        const double x = from_bits16(case_.activation, bits[at]);
        x_host_.push_back(x);
        squares += x * x;
      }
      mean_squares_.push_back(squares / static_cast<double>(cols));
    }
    x_ = std::make_unique<test::DeviceArray<uint16_t>>(bits);
    norm_host_ = random_floats(cols, seed + 200);
    norm_ = std::make_unique<test::DeviceArray<float>>(norm_host_);
    bias_host_ = random_floats(case_.shape.rows, seed + 300);
    bias_ = std::make_unique<test::DeviceArray<float>>(bias_host_);
    for (const float value : random_floats(case_.max_tokens * y_stride(), seed + 400)) {
      residual_host_.push_back(to_bits16(case_.activation, value));
    }
    residual_ = std::make_unique<test::DeviceArray<uint16_t>>(residual_host_);
  }

  void make_sums() {
    const int64_t rows = case_.shape.rows;
    const int64_t cols = case_.shape.cols;
    std::vector<float> row(static_cast<size_t>(cols));
    for (int n = 0; n < 2; ++n) {
      sums_[n].assign(static_cast<size_t>(case_.max_tokens * rows), 0.0);
      magnitudes_[n] = sums_[n];
    }
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t source_rows = matrices_[0]->view().type.rows;
      dequantize_row(matrices_[static_cast<size_t>(r / source_rows)]->view(), r % source_rows,
                     row.data());
      for (int64_t t = 0; t < case_.max_tokens; ++t) {
        add_products(row, t, static_cast<size_t>(t * rows + r));
      }
    }
  }

  void add_products(const std::vector<float>& row, int64_t token, size_t at) {
    const double* x = x_host_.data() + token * case_.shape.cols;
    double plain = 0, plain_magnitude = 0, normed = 0, normed_magnitude = 0;
    for (size_t k = 0; k < row.size(); ++k) {
      const double product = row[k] * x[k];
      plain += product;
      plain_magnitude += std::abs(product);
      normed += product * norm_host_[k];
      normed_magnitude += std::abs(product * norm_host_[k]);
    }
    sums_[0][at] = plain;
    magnitudes_[0][at] = plain_magnitude;
    sums_[1][at] = normed;
    magnitudes_[1][at] = normed_magnitude;
  }

  LinearCase case_;
  PackedType packed_;
  int64_t x_stride_ = 0;
  std::vector<std::unique_ptr<RandomMatrix>> matrices_;
  std::unique_ptr<test::DeviceArray<std::byte>> weights_;
  std::unique_ptr<test::DeviceArray<uint16_t>> x_, residual_;
  std::unique_ptr<test::DeviceArray<float>> bias_, norm_;
  std::vector<double> x_host_, mean_squares_;
  std::vector<float> norm_host_, bias_host_;
  std::vector<uint16_t> residual_host_;
  std::vector<double> sums_[2], magnitudes_[2];
};

}  // namespace zonda::kernels::testing
