// Tokens made fp8, and products of fp8 with fp8 against sums of the same codes in double.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "device/cuda/device_array.h"
#include "device/cuda/gpu_test.h"
#include "kernels/gemm/cuda/linear.h"
#include "kernels/gemm/cuda/packed_layout.h"
#include "kernels/gemm/cuda/quantize_tokens.h"
#include "kernels/gemm/linear_fixture.h"

namespace zonda::kernels {
namespace {

using testing::RandomMatrix;

constexpr float kEps = 1e-5f;

// Rows of 16-bit tokens whose scales differ by powers of ten; one row of zeros.
struct Tokens {
  int64_t count, cols, stride;
  std::vector<uint16_t> bits;
  std::vector<float> norm;

  Tokens(int64_t count, int64_t cols, DType activation, uint32_t seed)
      : count(count), cols(cols), stride((cols + 7) / 8 * 8 + 8) {
    const std::vector<float> values = testing::random_floats(count * stride, seed);
    bits.assign(values.size(), 0x7fff);
    for (int64_t t = 0; t < count; ++t) {
      for (int64_t k = 0; k < cols; ++k) {
        const auto at = static_cast<size_t>(t * stride + k);
        const float scale = t == 2 ? 0.0f : std::pow(10.0f, static_cast<float>(t % 5) - 2.0f);
        bits[at] = activation == DType::kBFloat16 ? float_to_bf16(values[at] * scale)
                                                  : float_to_f16(values[at] * scale);
      }
    }
    norm = testing::random_floats(cols, seed + 1);
  }
  float value(DType activation, int64_t t, int64_t k) const {
    const uint16_t b = bits[static_cast<size_t>(t * stride + k)];
    return activation == DType::kBFloat16 ? bf16_to_float(b) : f16_to_float(b);
  }
};

// What the kernel says it does, in the same float operations.
struct HostCodes {
  std::vector<uint8_t> codes;  // [count, cols]
  std::vector<double> scales;

  HostCodes(const Tokens& tokens, DType activation, bool with_norm) {
    for (int64_t t = 0; t < tokens.count; ++t) {
      std::vector<float> row;
      float largest = 0.0f;
      double squares = 0.0;
      for (int64_t k = 0; k < tokens.cols; ++k) {
        const float x = tokens.value(activation, t, k);
        squares += double{x} * x;
        row.push_back(with_norm ? x * tokens.norm[static_cast<size_t>(k)] : x);
        largest = std::max(largest, std::abs(row.back()));
      }
      const double rms =
          with_norm ? 1.0 / std::sqrt(squares / static_cast<double>(tokens.cols) + kEps) : 1.0;
      scales.push_back(largest / 448.0 * rms);
      const float inverse = largest > 0.0f ? 448.0f / largest : 0.0f;
      for (const float x : row) {
        codes.push_back(float_to_f8e4m3(x * inverse));
      }
    }
  }
};

class Fp8CudaTest : public test::GpuTest {};

TEST_F(Fp8CudaTest, TokensAreTheNearestCodesInTheOrderOfTheWeights) {
  for (const DType activation : {DType::kBFloat16, DType::kFloat16}) {
    for (const int64_t cols :
         {int64_t{64}, int64_t{203}, int64_t{4096}, int64_t{14336}, int64_t{17000}}) {
      for (const bool with_norm : {false, true}) {
        const Tokens tokens(7, cols, activation, 3);
        const HostCodes expected(tokens, activation, with_norm);
        test::DeviceArray<uint16_t> x(tokens.bits);
        test::DeviceArray<float> norm(tokens.norm);
        const int64_t pitch = (cols + 127) / 128 * 128;
        test::DeviceArray<std::byte> codes(static_cast<size_t>(7 * pitch));
        test::DeviceArray<float> scales(7);
        cuda::QuantizeTokensParams params;
        params.x = x.data();
        params.norm_weight = with_norm ? norm.data() : nullptr;
        params.norm_eps = kEps;
        params.num_tokens = 7;
        params.cols = cols;
        params.x_stride = tokens.stride;
        params.pitch = pitch;
        params.codes = codes.data();
        params.scales = scales.data();
        params.activation = activation;
        ASSERT_EQ(cuda::quantize_tokens(params, {}), cudaSuccess);
        const std::vector<std::byte> found = codes.read();
        const std::vector<float> found_scales = scales.read();
        for (int64_t t = 0; t < 7; ++t) {
          EXPECT_NEAR(found_scales[static_cast<size_t>(t)], expected.scales[static_cast<size_t>(t)],
                      expected.scales[static_cast<size_t>(t)] * 1e-5);
          for (int64_t k = 0; k < pitch; ++k) {
            const auto at =
                static_cast<size_t>(t * pitch + cuda::fp8_position(static_cast<int32_t>(k)));
            const uint8_t wanted =
                k < cols ? expected.codes[static_cast<size_t>(t * cols + k)] : uint8_t{0};
            ASSERT_EQ(static_cast<uint8_t>(found[at]), wanted) << cols << " " << t << " " << k;
          }
        }
      }
    }
  }
}

// The tensor cores keep some 13 bits below the largest product of a step: errors grow with the sum
// of magnitudes.
TEST_F(Fp8CudaTest, ProductsOfCodesAreExactUpToTheSums) {
  const DType activation = DType::kBFloat16;
  const int64_t rows = 256, cols = 4096, count = 150;
  const RandomMatrix matrix({WeightFormat::kFloat8E4M3}, rows, cols, 11);
  const PackedType packed{matrix.view().type, RowOrder::kStacked};
  std::vector<std::byte> bytes(static_cast<size_t>(cuda::packed_bytes(packed)));
  ASSERT_TRUE(cuda::pack_weights(packed, {&matrix.view(), 1}, bytes.data()).ok());
  test::DeviceArray<std::byte> weights(bytes);
  const Tokens tokens(count, cols, activation, 12);
  test::DeviceArray<uint16_t> x(tokens.bits);
  test::DeviceArray<float> norm(tokens.norm);
  for (const bool with_norm : {false, true}) {
    const HostCodes codes(tokens, activation, with_norm);
    for (const cuda::LinearTactic& tactic : cuda::linear_tactics(packed.type, 90)) {
      if (tactic.name.find("_fp8_") == std::string_view::npos) {
        continue;
      }
      const int64_t tokens_now = std::min(count, tactic.max_tokens);
      test::DeviceArray<float> y(static_cast<size_t>(tokens_now * rows));
      test::DeviceArray<std::byte> workspace(
          static_cast<size_t>(cuda::linear_workspace_bytes(packed, tokens_now)));
      cuda::LinearParams params;
      params.x = x.data();
      params.weights = weights.data();
      params.y = y.data();
      params.workspace = workspace.data();
      params.norm_weight = with_norm ? norm.data() : nullptr;
      params.norm_eps = kEps;
      params.num_tokens = tokens_now;
      params.x_stride = tokens.stride;
      params.y_stride = rows;
      params.packed = packed;
      params.float32_output = true;
      ASSERT_EQ(tactic.run(params, {}), cudaSuccess);
      const std::vector<float> found = y.read();
      std::vector<float> row(static_cast<size_t>(cols));
      double worst = 0.0, error = 0.0, total = 0.0;
      for (int64_t r = 0; r < rows; r += 17) {
        dequantize_row(matrix.view(), r, row.data());
        for (int64_t t = 0; t < tokens_now; t += 7) {
          double sum = 0.0, magnitude = 0.0;
          for (int64_t k = 0; k < cols; ++k) {
            const double product =
                row[static_cast<size_t>(k)] *
                double{f8e4m3_to_float(codes.codes[static_cast<size_t>(t * cols + k)])};
            sum += product;
            magnitude += std::abs(product);
          }
          const double scale = codes.scales[static_cast<size_t>(t)];
          const double difference =
              std::abs(found[static_cast<size_t>(t * rows + r)] - sum * scale);
          const double bound = magnitude * scale * 0x1p-11 + 1e-12;
          worst = std::max(worst, std::isnan(difference) ? INFINITY : difference / bound);
          error += difference * difference;
          total += sum * scale * sum * scale;
        }
      }
      RecordProperty(std::string(tactic.name), std::to_string(std::sqrt(error / total)));
      std::printf("%s%s: relative error of the sums %.2e, %.3f of the bound\n",
                  std::string(tactic.name).c_str(), with_norm ? "+norm" : "",
                  std::sqrt(error / total), worst);
      EXPECT_LE(worst, 1.0) << tactic.name;
    }
  }
}

}  // namespace
}  // namespace zonda::kernels
