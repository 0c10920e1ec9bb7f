// Every tactic gives the bits of the reference, whatever the tokens, threads and shape.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/gemm/linear_fixture.h"

namespace zonda::kernels {
namespace {

using device::CpuIsa;
using testing::all_formats;
using testing::case_name;
using testing::FormatCase;
using testing::machine_levels;
using testing::must_allocate;
using testing::must_pack;
using testing::random_floats;
using testing::RandomMatrix;

constexpr float kPoison = -12345.5f;

struct Shape {
  int64_t rows;  // of each source
  int64_t cols;
  int64_t tokens;
};

// One packed matrix and one batch of activations.
class LinearCase {
 public:
  LinearCase(const FormatCase& format, const Shape& shape, Epilogue epilogue, bool with_bias)
      : epilogue_(epilogue), shape_(shape) {
    const bool gated = epilogue == Epilogue::kGatedSilu || epilogue == Epilogue::kGatedGeluTanh;
    std::vector<WeightView> views;
    sources_.emplace_back(format, shape.rows, shape.cols, 11);
    if (gated) {
      sources_.emplace_back(format, shape.rows, shape.cols, 12);
    }
    for (const RandomMatrix& source : sources_) {
      views.push_back(source.view());
    }
    packed_.type = views[0].type;
    packed_.type.rows = shape.rows * static_cast<int64_t>(views.size());
    packed_.order = gated ? RowOrder::kInterleaved : RowOrder::kStacked;
    weights_ = must_pack(packed_, views);
    x_ = random_floats(shape.tokens * x_stride(), 13);
    residual_ = random_floats(shape.tokens * y_stride(), 14);
    bias_ = with_bias ? random_floats(packed_.type.rows, 15) : std::vector<float>();
  }

  std::vector<float>& x() { return x_; }
  const WeightType& type() const { return packed_.type; }
  int64_t x_stride() const { return shape_.cols + 3; }
  int64_t y_stride() const { return shape_.rows + 5; }

  // Tokens [first, first + count) through `tactic`, or through the reference when null.
  std::vector<float> run(const LinearTactic* tactic, CpuIsa isa, int threads, int64_t first,
                         int64_t count) const {
    std::vector<float> y(static_cast<size_t>(count * y_stride()), kPoison);
    device::ThreadPool pool(threads);
    device::Stream stream(pool, isa);
    const int64_t workspace_bytes = linear_workspace_bytes(packed_, count, threads);
    device::Buffer workspace = must_allocate(workspace_bytes + 64);
    std::memset(workspace.data(), 0xff, workspace.size());
    LinearParams params;
    params.x = x_.data() + first * x_stride();
    params.x_stride = x_stride();
    params.weights = weights_.data();
    params.bias = bias_.empty() ? nullptr : bias_.data();
    params.residual = residual_.data() + first * y_stride();
    params.y = y.data();
    params.y_stride = y_stride();
    params.workspace = workspace.data();
    params.num_tokens = count;
    params.packed = packed_;
    params.epilogue = epilogue_;
    if (tactic == nullptr) {
      linear_reference(params, isa);
    } else {
      tactic->run(params, stream);
    }
    for (int64_t i = workspace_bytes; i < workspace_bytes + 64; ++i) {
      EXPECT_EQ(workspace.data()[i], std::byte{0xff}) << "workspace overrun";
    }
    return y;
  }

  std::vector<float> reference(CpuIsa isa) const { return run(nullptr, isa, 1, 0, shape_.tokens); }

  // Writes exactly the columns [0, rows) of each token.
  void expect_poison_kept(const std::vector<float>& y) const {
    for (int64_t token = 0; token < shape_.tokens; ++token) {
      for (int64_t col = 0; col < y_stride(); ++col) {
        const float value = y[static_cast<size_t>(token * y_stride() + col)];
        ASSERT_EQ(value == kPoison, col >= shape_.rows) << "token " << token << " column " << col;
      }
    }
  }

 private:
  Epilogue epilogue_;
  Shape shape_;
  PackedType packed_;
  std::vector<RandomMatrix> sources_;
  device::Buffer weights_;
  std::vector<float> x_;
  std::vector<float> residual_;
  std::vector<float> bias_;
};

// Bits of all outputs equal; the first difference is reported.
void expect_same_bits(const std::vector<float>& expected, const std::vector<float>& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(expected[i]), std::bit_cast<uint32_t>(found[i]))
        << "at " << i << ": expected " << expected[i] << ", found " << found[i];
  }
}

// The processor's own bfloat16 products flush denormals and leave their rounding to the maker.
bool reference_is_exact(WeightFormat format, CpuIsa isa) {
  return format != WeightFormat::kBFloat16 || isa < CpuIsa::kAvx512Bf16;
}

// Equal but for the rounding of sums: relative to the largest output.
void expect_close(const std::vector<float>& expected, const std::vector<float>& found) {
  ASSERT_EQ(expected.size(), found.size());
  float largest = 1e-30f;
  for (const float value : expected) {
    largest = std::max(largest, value == kPoison ? 0.0f : std::abs(value));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(expected[i], found[i], 2e-6f * largest) << "at " << i;
  }
}

void expect_all_tactics_equal_reference(const LinearCase& linear, const Shape& shape) {
  for (const CpuIsa isa : machine_levels()) {
    std::vector<float> expected = linear.reference(isa);
    linear.expect_poison_kept(expected);
    if (!reference_is_exact(linear.type().format, isa)) {
      const LinearTactic& first = linear_tactics(linear.type(), isa).front();
      const std::vector<float> found = linear.run(&first, isa, 1, 0, shape.tokens);
      expect_close(expected, found);
      expected = found;
    }
    for (const LinearTactic& tactic : linear_tactics(linear.type(), isa)) {
      for (const int threads : {1, 2, 3}) {
        SCOPED_TRACE(std::string(device::cpu_isa_name(isa)) + " " + std::string(tactic.name) + " " +
                     std::to_string(threads) + " threads, " + std::to_string(shape.rows) + "x" +
                     std::to_string(shape.cols) + ", " + std::to_string(shape.tokens) + " tokens");
        expect_same_bits(expected, linear.run(&tactic, isa, threads, 0, shape.tokens));
      }
    }
  }
}

class LinearFormat : public ::testing::TestWithParam<FormatCase> {};

TEST_P(LinearFormat, EveryTacticGivesTheBitsOfTheReference) {
  const Shape shapes[] = {{1, 1, 1},    {16, 32, 1},   {16, 128, 2},  {33, 65, 3},  {200, 160, 4},
                          {47, 288, 5}, {130, 256, 6}, {64, 100, 7},  {80, 640, 8}, {50, 129, 13},
                          {24, 96, 17}, {320, 64, 33}, {17, 1300, 9}, {36, 2, 1},   {48, 31, 70}};
  for (const Shape& shape : shapes) {
    const LinearCase linear(GetParam(), shape, Epilogue::kStore, false);
    expect_all_tactics_equal_reference(linear, shape);
    if (HasFatalFailure()) {
      return;
    }
  }
}

TEST_P(LinearFormat, EveryEpilogueGivesTheBitsOfTheReference) {
  const Shape shapes[] = {{40, 96, 1}, {16, 64, 7}, {90, 160, 11}};
  for (const Epilogue epilogue :
       {Epilogue::kStore, Epilogue::kAddResidual, Epilogue::kGatedSilu, Epilogue::kGatedGeluTanh}) {
    for (const bool with_bias : {false, true}) {
      for (const Shape& shape : shapes) {
        SCOPED_TRACE("epilogue " + std::to_string(static_cast<int>(epilogue)));
        expect_all_tactics_equal_reference(LinearCase(GetParam(), shape, epilogue, with_bias),
                                           shape);
        if (HasFatalFailure()) {
          return;
        }
      }
    }
  }
}

TEST_P(LinearFormat, TokenDoesNotDependOnItsCompanyOrTheTactic) {
  const Shape shape{70, 416, 530};  // more than one chunk of tokens
  const LinearCase linear(GetParam(), shape, Epilogue::kStore, true);
  for (const CpuIsa isa : machine_levels()) {
    const std::span<const LinearTactic> tactics = linear_tactics(linear.type(), isa);
    const std::vector<float> all = linear.run(&tactics.back(), isa, 2, 0, shape.tokens);
    for (const LinearTactic& tactic : tactics) {
      for (const auto& [first, count] :
           {std::pair<int64_t, int64_t>{0, 1}, {5, 2}, {100, 31}, {511, 1}, {505, 9}, {529, 1}}) {
        SCOPED_TRACE(std::string(tactic.name) + " tokens from " + std::to_string(first) + ", " +
                     std::to_string(count));
        const auto begin = all.begin() + first * linear.y_stride();
        expect_same_bits({begin, begin + count * linear.y_stride()},
                         linear.run(&tactic, isa, 1, first, count));
      }
    }
  }
}

TEST_P(LinearFormat, ExtremeActivationsStayExact) {
  const Shape shape{32, 256, 6};
  LinearCase linear(GetParam(), shape, Epilogue::kStore, false);
  std::vector<float>& x = linear.x();
  for (int64_t k = 0; k < shape.cols; ++k) {
    const auto stride = static_cast<size_t>(linear.x_stride());
    const auto at = static_cast<size_t>(k);
    x[at] = 0.0f;                                         // all zero
    x[stride + at] = 1e-38f;                              // below every scale
    x[2 * stride + at] = k % 2 == 0 ? 1e18f : -1e18f;     // full range both ways
    x[3 * stride + at] = 127.0f;                          // every q is 127
    x[4 * stride + at] = -127.0f;                         // every q is -127
    x[5 * stride + at] = k / 32 % 2 == 0 ? 0.0f : -3.5f;  // zero groups among others
  }
  expect_all_tactics_equal_reference(linear, shape);
}

TEST_P(LinearFormat, NotANumberDoesNotVanish) {
  const Shape shape{20, 160, 2};
  LinearCase linear(GetParam(), shape, Epilogue::kStore, false);
  linear.x()[40] = std::numeric_limits<float>::quiet_NaN();
  for (const CpuIsa isa : machine_levels()) {
    for (const LinearTactic& tactic : linear_tactics(linear.type(), isa)) {
      const std::vector<float> y = linear.run(&tactic, isa, 1, 0, 2);
      for (int64_t row = 0; row < shape.rows; ++row) {
        EXPECT_TRUE(std::isnan(y[static_cast<size_t>(row)])) << tactic.name << " row " << row;
        EXPECT_FALSE(std::isnan(y[static_cast<size_t>(linear.y_stride() + row)])) << tactic.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllFormats, LinearFormat, ::testing::ValuesIn(all_formats()),
                         [](const auto& info) { return case_name(info.param); });

// Weights at the ends of their range with the largest activations: no sum may saturate.
TEST(LinearIntegers, LargestProductsDoNotSaturate) {
  for (const FormatCase& format : all_formats()) {
    if (!is_quantized(format.format)) {
      continue;
    }
    for (const uint8_t byte : {0x00, 0x7f, 0x80, 0xff}) {
      RandomMatrix matrix(format, 16, 256, 5);
      std::fill(matrix.data().begin(), matrix.data().end(), std::byte{byte});
      std::fill(matrix.scales().begin(), matrix.scales().end(), float_to_f16(1.0f));
      const PackedType packed{matrix.view().type, RowOrder::kStacked};
      const device::Buffer weights = must_pack(packed, {&matrix.view(), 1});
      for (const float value : {127.0f, -127.0f}) {
        std::vector<float> x(256, value);
        std::vector<float> row(256);
        unpack_row(packed, weights.data(), 0, row.data());
        double expected = 0.0;
        for (const float weight : row) {
          expected += double{weight} * value;
        }
        device::ThreadPool pool(1);
        for (const CpuIsa isa : machine_levels()) {
          device::Stream stream(pool, isa);
          device::Buffer workspace = must_allocate(linear_workspace_bytes(packed, 1, 1));
          for (const LinearTactic& tactic : linear_tactics(packed.type, isa)) {
            std::vector<float> y(16);
            tactic.run({.x = x.data(),
                        .weights = weights.data(),
                        .y = y.data(),
                        .workspace = workspace.data(),
                        .num_tokens = 1,
                        .x_stride = 256,
                        .y_stride = 16,
                        .packed = packed},
                       stream);
            EXPECT_NEAR(y[0], expected, std::abs(expected) * 1e-6)
                << case_name(format) << " " << tactic.name;
          }
        }
      }
    }
  }
}

// The whole path against double-precision products of the dequantised weights.
TEST(LinearAccuracy, ErrorAgainstDoubleIsThatOfTheActivationRounding) {
  for (const FormatCase& format : all_formats()) {
    const RandomMatrix matrix(format, 64, 512, 21);
    const PackedType packed{matrix.view().type, RowOrder::kStacked};
    const device::Buffer weights = must_pack(packed, {&matrix.view(), 1});
    const std::vector<float> x = random_floats(512, 22);
    std::vector<double> expected(64, 0.0);
    std::vector<float> row(512);
    for (int64_t r = 0; r < 64; ++r) {
      dequantize_row(matrix.view(), r, row.data());
      for (size_t k = 0; k < 512; ++k) {
        expected[static_cast<size_t>(r)] += double{row[k]} * x[k];
      }
    }
    for (const CpuIsa isa : machine_levels()) {
      std::vector<float> y(64);
      device::ThreadPool pool(1);
      device::Stream stream(pool, isa);
      device::Buffer workspace = must_allocate(linear_workspace_bytes(packed, 1, 1));
      default_linear_tactic(packed.type, isa, 1)
          .run({.x = x.data(),
                .weights = weights.data(),
                .y = y.data(),
                .workspace = workspace.data(),
                .num_tokens = 1,
                .x_stride = 512,
                .y_stride = 64,
                .packed = packed},
               stream);
      double error = 0.0;
      double norm = 0.0;
      for (size_t r = 0; r < 64; ++r) {
        error += (y[r] - expected[r]) * (y[r] - expected[r]);
        norm += expected[r] * expected[r];
      }
      const double relative = std::sqrt(error / norm);
      const double limit = is_quantized(format.format)                ? 0.02
                           : format.format == WeightFormat::kBFloat16 ? 0.004
                                                                      : 1e-6;
      EXPECT_LT(relative, limit) << case_name(format) << " " << device::cpu_isa_name(isa);
    }
  }
}

TEST(LinearTactics, ThereIsAlwaysOneAndNamesAreUnique) {
  for (const FormatCase& format : all_formats()) {
    const WeightType type{format.format, 16, 32, format.group_size, format.has_minimum};
    for (int level = 0; level <= static_cast<int>(CpuIsa::kAmx); ++level) {
      const auto isa = static_cast<CpuIsa>(level);
      const std::span<const LinearTactic> tactics = linear_tactics(type, isa);
      ASSERT_FALSE(tactics.empty());
      for (size_t i = 0; i < tactics.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          EXPECT_NE(tactics[i].name, tactics[j].name);
        }
      }
      for (const int64_t tokens : {1, 7, 64, 100000}) {
        const LinearTactic& chosen = default_linear_tactic(type, isa, tokens);
        EXPECT_LE(chosen.min_tokens, tokens) << chosen.name;
        EXPECT_GE(chosen.max_tokens, tokens) << chosen.name;
      }
    }
  }
}

// A machine without an instruction set cannot run its tactics: say which were left out.
class LinearLevel : public ::testing::TestWithParam<CpuIsa> {};
TEST_P(LinearLevel, IsCoveredByThisRun) {
  if (GetParam() > device::detect_cpu_isa()) {
    GTEST_SKIP() << device::cpu_isa_name(GetParam()) << " is not on this machine.";
  }
}
INSTANTIATE_TEST_SUITE_P(AllLevels, LinearLevel,
                         ::testing::Values(CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512,
                                           CpuIsa::kAvx512Bf16, CpuIsa::kAmx));

}  // namespace
}  // namespace zonda::kernels
