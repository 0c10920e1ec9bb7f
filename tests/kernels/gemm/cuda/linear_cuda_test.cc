// Every CUDA tactic against sums in double; deterministic ones against each other, bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>

#include "device/cuda/gpu_test.h"
#include "kernels/gemm/cuda/linear_scene.h"

namespace zonda::kernels {
namespace {

using cuda::LinearTactic;
using testing::FormatCase;
using testing::LinearCase;
using testing::LinearScene;

constexpr float kEps = 1e-5f;

struct CallVariant {
  const char* name;
  Epilogue epilogue = Epilogue::kStore;
  bool bias = false;
  bool norm = false;
  bool float32 = false;
  bool in_place = false;  // y is the residual
};

constexpr CallVariant kStackedVariants[] = {
    {"store"},
    {"bias", Epilogue::kStore, true},
    {"residual", Epilogue::kAddResidual},
    {"bias residual", Epilogue::kAddResidual, true},
    {"residual in place", Epilogue::kAddResidual, false, false, false, true},
    {"float32", Epilogue::kStore, false, false, true},
    {"norm", Epilogue::kStore, false, true},
    {"norm bias float32", Epilogue::kStore, true, true, true},
};
constexpr CallVariant kInterleavedVariants[] = {
    {"interleaved store"},
    {"silu", Epilogue::kGatedSilu},
    {"gelu bias", Epilogue::kGatedGeluTanh, true},
    {"silu norm", Epilogue::kGatedSilu, false, true},
};

int compute_capability() {
  int major = 0;
  int minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  return major * 10 + minor;
}

double gate(Epilogue epilogue, double a) {
  if (epilogue == Epilogue::kGatedSilu) {
    return a / (1.0 + std::exp(-a));
  }
  return 0.5 * a * (1.0 + std::tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)));
}

// Runs one call into poisoned memory; what lies outside y must stay. [tokens][y columns]
class Call {
 public:
  Call(const LinearScene& scene, const LinearTactic& tactic, const CallVariant& variant,
       int64_t first, int64_t count)
      : scene_(scene), variant_(variant), count_(count) {
    const bool is_gated = variant.epilogue >= Epilogue::kGatedSilu;
    columns_ = scene.spec().shape.rows / (is_gated ? 2 : 1);
    const auto elements = static_cast<size_t>(count * scene.y_stride());
    before_.assign(elements * (variant.float32 ? 4 : 2), std::byte{0xff});
    if (variant.in_place) {
      const uint16_t* residual = scene.residual_host().data() + first * scene.y_stride();
      std::memcpy(before_.data(), residual, before_.size());
    }
    test::DeviceArray<std::byte> y(before_);
    test::DeviceArray<std::byte> workspace(
        static_cast<size_t>(cuda::linear_workspace_bytes(scene.packed(), count)));
    cuda::LinearParams params = scene.params(first, count);
    params.epilogue = variant.epilogue;
    params.bias = variant.bias ? scene.bias_data() : nullptr;
    params.residual = variant.epilogue == Epilogue::kAddResidual
                          ? scene.residual_data() + first * scene.y_stride()
                          : nullptr;
    params.residual = variant.in_place ? y.data() : params.residual;
    params.norm_weight = variant.norm ? scene.norm_data() : nullptr;
    params.norm_eps = kEps;
    params.float32_output = variant.float32;
    params.y = y.data();
    params.workspace = workspace.data();
    EXPECT_EQ(tactic.run(params, {}), cudaSuccess) << tactic.name << " " << variant.name;
    bytes_ = y.read();
  }

  float value(int64_t token, int64_t column) const {
    const auto at = static_cast<size_t>(token * scene_.y_stride() + column);
    if (variant_.float32) {
      float value;
      std::memcpy(&value, bytes_.data() + at * 4, 4);
      return value;
    }
    uint16_t bits;
    std::memcpy(&bits, bytes_.data() + at * 2, 2);
    return testing::from_bits16(scene_.spec().activation, bits);
  }
  int64_t columns() const { return columns_; }
  bool gap_is_untouched() const {
    const int64_t element = variant_.float32 ? 4 : 2;
    for (int64_t t = 0; t < count_; ++t) {
      const int64_t row = t * scene_.y_stride() * element;
      if (!std::equal(bytes_.data() + row + columns_ * element,
                      bytes_.data() + row + scene_.y_stride() * element,
                      before_.data() + row + columns_ * element)) {
        return false;
      }
    }
    return true;
  }

 private:
  const LinearScene& scene_;
  const CallVariant& variant_;
  int64_t count_;
  int64_t columns_;
  std::vector<std::byte> before_, bytes_;
};

struct Expected {
  double value;
  double bound;
  double size;  // what a relative error of the sums multiplies in the value
};

// Tactics of fp8 weights that make the tokens fp8 too.
bool rounds_tokens(const LinearTactic& tactic) {
  return tactic.name.find("_fp8_") != std::string_view::npos;
}

// The sum of one row with bias, and how far float32 sums of rounded operands may be from it.
Expected expected_sum(const LinearScene& scene, const LinearTactic& tactic,
                      const CallVariant& variant, int64_t token, int64_t row) {
  const double scale = variant.norm ? scene.inverse_rms(token, kEps) : 1.0;
  const bool is_float = !is_quantized(scene.spec().format.format);
  // Rounding of x * g, and of dequantised weights, is systematic per element: at most half a unit.
  const double operand = testing::rounding_of(scene.spec().activation) * 0.5;
  // Tokens of three bits of fraction: half a unit is 2^-4 of the value.
  const double relative = 2e-5 + (variant.norm ? operand : 0.0) + (is_float ? 0.0 : operand) +
                          (rounds_tokens(tactic) ? 0x1p-4 * 1.05 : 0.0);
  const double value =
      scene.sum(token, row, variant.norm) * scale + (variant.bias ? scene.bias(row) : 0.0f);
  return {value, relative * scene.magnitude(token, row, variant.norm) * scale, std::abs(value)};
}

Expected expected_value(const LinearScene& scene, const LinearTactic& tactic,
                        const CallVariant& variant, int64_t token, int64_t column) {
  const double rounding = testing::rounding_of(scene.spec().activation);
  Expected e = expected_sum(scene, tactic, variant, token, column);
  if (variant.epilogue >= Epilogue::kGatedSilu) {
    const Expected b =
        expected_sum(scene, tactic, variant, token, scene.spec().shape.rows / 2 + column);
    // The product's error, and that of both sides if they were rounded to 16 bits before.
    const double slope = 1.2;
    const double a_bound = e.bound + rounding * std::abs(e.value);
    const double b_bound = b.bound + rounding * std::abs(b.value);
    // Far below zero the gate falls as exp(a): an error of a, not its share of a, is what scales
    // it.
    const double step = 1e-4 * std::abs(e.value);
    const double a_share =
        (gate(variant.epilogue, e.value + step) - gate(variant.epilogue, e.value - step)) * 0.5e4;
    const double value = gate(variant.epilogue, e.value);
    e.bound = slope * a_bound * (std::abs(b.value) + b_bound) + std::abs(e.value) * b_bound;
    e.size = std::max(std::abs(value), std::abs(a_share)) * std::abs(b.value);
    e.value = value * b.value;
  }
  if (variant.epilogue == Epilogue::kAddResidual) {
    e.value += scene.residual(token, column);
    e.size = std::abs(e.value);
  }
  e.bound += std::abs(e.value) * (variant.float32 ? 1e-6 : rounding) + 1e-6;
  return e;
}

void check_call(const LinearScene& scene, const LinearTactic& tactic, const CallVariant& variant,
                int64_t count) {
  const Call call(scene, tactic, variant, 0, count);
  // What float16 loses below its smallest value is no error of the kernel.
  const bool is_half = scene.spec().activation == DType::kFloat16 && !variant.float32;
  const double unseen = is_half ? 0x1p-25 : 0.0;
  double error = 0, total = 0, worst = 0;
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t c = 0; c < call.columns(); ++c) {
      Expected e = expected_value(scene, tactic, variant, t, c);
      if (!tactic.deterministic && variant.epilogue == Epilogue::kAddResidual) {
        // cuBLASLt was seen to round the product to float16 before it adds a residual in place.
        e.bound += testing::rounding_of(scene.spec().activation) *
                   std::abs(e.value - scene.residual(t, c));
      }
      const double difference = std::abs(call.value(t, c) - e.value);
      error += std::pow(std::max(difference - unseen, 0.0), 2);
      total += e.size * e.size;
      worst = std::max(worst, std::isnan(difference) ? INFINITY : difference / e.bound);
    }
  }
  const double relative = std::sqrt(error / total);
  const double limit = rounds_tokens(tactic)                         ? 5e-2
                       : scene.spec().activation == DType::kBFloat16 ? 8e-3
                                                                     : 2e-3;
  EXPECT_LE(worst, 1.0) << tactic.name << ", " << variant.name << ", " << count
                        << " tokens: times the bound";
  EXPECT_LT(relative, limit) << tactic.name << ", " << variant.name << ", " << count << " tokens";
  EXPECT_TRUE(call.gap_is_untouched()) << tactic.name << ", " << variant.name;
}

std::vector<LinearCase> all_cases(int64_t max_tokens) {
  std::vector<LinearCase> cases;
  for (const FormatCase& format : testing::cuda_formats()) {
    for (const DType activation : {DType::kBFloat16, DType::kFloat16}) {
      const bool fits = is_quantized(format.format) ||
                        format.format == (activation == DType::kBFloat16 ? WeightFormat::kBFloat16
                                                                         : WeightFormat::kFloat16);
      if (fits) {
        cases.push_back({format, activation, {0, 0}, max_tokens});
      }
    }
  }
  return cases;
}

std::string name_of(const LinearCase& c) {
  return testing::case_name(c.format) + (c.activation == DType::kBFloat16 ? " bf16 " : " fp16 ") +
         std::to_string(c.shape.rows) + " x " + std::to_string(c.shape.cols);
}

class LinearCudaTest : public test::GpuTest {
 protected:
  std::span<const LinearTactic> tactics(const LinearScene& scene) const {
    return cuda::linear_tactics(scene.packed().type, compute_capability());
  }

  void check_scene(const LinearScene& scene, std::span<const CallVariant> variants) {
    for (const LinearTactic& tactic : tactics(scene)) {
      for (const int64_t count : {1, 3, 8, 9, 16, 19, 33, 64, 70, 131}) {
        if (count < tactic.min_tokens ||
            count > std::min(tactic.max_tokens, scene.spec().max_tokens)) {
          continue;
        }
        for (const CallVariant& variant : variants) {
          if (!variant.norm || tactic.fuses_norm) {
            check_call(scene, tactic, variant, count);
          }
        }
      }
    }
  }

  // Every deterministic tactic on 1, 5 and as many tokens as it takes, of 70.
  void check_bits(const LinearScene& scene, const CallVariant& variant) {
    std::vector<float> first;  // [70][rows], from the first deterministic tactic, token by token
    int compared = 0;
    for (const LinearTactic& tactic : tactics(scene)) {
      if (!tactic.deterministic || (variant.norm && !tactic.fuses_norm)) {
        continue;
      }
      const int64_t most = std::min<int64_t>(tactic.max_tokens, 70);
      for (const int64_t count : {int64_t{1}, int64_t{5}, most}) {
        if (count < tactic.min_tokens) {
          continue;
        }
        for (int64_t begin = 0; begin + count <= 70; begin += count) {
          const Call call(scene, tactic, variant, begin, count);
          for (int64_t t = 0; t < count; ++t) {
            for (int64_t row = 0; row < 53; ++row) {
              const auto at = static_cast<size_t>((begin + t) * 53 + row);
              if (first.size() <= at) {
                first.resize(at + 1, NAN);
              }
              if (std::isnan(first[at])) {
                first[at] = call.value(t, row);
              }
              ASSERT_EQ(first[at], call.value(t, row))
                  << tactic.name << ", token " << t << " of " << count << " after " << begin;
              ++compared;
            }
          }
        }
      }
    }
    EXPECT_GT(compared, 70 * 53);
  }

  // A chain: y1 = x W, y2 = y1 W; with dependent launches the second starts before the first ends.
  void check_chain(const LinearScene& scene) {
    for (const LinearTactic& tactic : tactics(scene)) {
      if (tactic.min_tokens > 8) {
        continue;
      }
      std::vector<std::vector<uint16_t>> results;
      for (const bool dependent : {false, true}) {
        test::DeviceArray<uint16_t> y1(8 * 4096);
        test::DeviceArray<uint16_t> y2(8 * 4096);
        cuda::LinearParams params = scene.params(0, 8);
        params.y_stride = 4096;
        params.y = y1.data();
        params.num_tokens = std::min<int64_t>(8, tactic.max_tokens);
        for (int round = 0; round < 20; ++round) {
          params.x = scene.params(0, 8).x;
          params.x_stride = scene.x_stride();
          params.y = y1.data();
          ASSERT_EQ(tactic.run(params, {nullptr, dependent}), cudaSuccess);
          params.x = y1.data();
          params.x_stride = 4096;
          params.y = y2.data();
          ASSERT_EQ(tactic.run(params, {nullptr, dependent}), cudaSuccess);
        }
        results.push_back(y2.read());
      }
      EXPECT_EQ(results[0], results[1]) << tactic.name;
    }
  }
};

TEST_F(LinearCudaTest, EveryTacticEqualsTheSumInDouble) {
  uint32_t seed = 1;
  for (LinearCase c : all_cases(131)) {
    // No multiple of 16 rows, of 8 or 128 cols; fewer chunks than warps, and more.
    for (const testing::LinearShape shape : {testing::LinearShape{53, 203}, {80, 1184}}) {
      c.shape = shape;
      SCOPED_TRACE(name_of(c));
      check_scene(LinearScene(c, seed += 10), kStackedVariants);
    }
    for (const testing::LinearShape shape :
         {testing::LinearShape{2 * 37, 320, RowOrder::kInterleaved},
          {2 * 48, 1160, RowOrder::kInterleaved}}) {
      c.shape = shape;
      SCOPED_TRACE(name_of(c));
      check_scene(LinearScene(c, seed += 10), kInterleavedVariants);
    }
  }
}

TEST_F(LinearCudaTest, DeterministicTacticsAgreeBitForBit) {
  const CallVariant plain{"float32", Epilogue::kStore, false, false, true};
  const CallVariant normed{"norm float32", Epilogue::kStore, false, true, true};
  for (LinearCase c : all_cases(70)) {
    c.shape = {53, 1184};
    const LinearScene scene(c, 77);
    for (const CallVariant& variant : {plain, normed}) {
      SCOPED_TRACE(name_of(c) + " " + variant.name);
      check_bits(scene, variant);
    }
  }
}

// cuBLASLt may round otherwise there; that it stays in the bound is checked with the others.
TEST_F(LinearCudaTest, ResidualInPlaceGivesTheSameBits) {
  const CallVariant apart{"residual", Epilogue::kAddResidual};
  const CallVariant in_place{"in place", Epilogue::kAddResidual, false, false, false, true};
  for (LinearCase c : all_cases(70)) {
    c.shape = {64, 256};
    SCOPED_TRACE(name_of(c));
    const LinearScene scene(c, 5);
    for (const LinearTactic& tactic : tactics(scene)) {
      if (!tactic.deterministic) {
        continue;
      }
      const int64_t count = std::min<int64_t>(tactic.max_tokens, 70);
      const Call expected(scene, tactic, apart, 0, count);
      const Call call(scene, tactic, in_place, 0, count);
      for (int64_t t = 0; t < count; ++t) {
        for (int64_t row = 0; row < 64; ++row) {
          ASSERT_EQ(call.value(t, row), expected.value(t, row)) << tactic.name;
        }
      }
    }
  }
}

TEST_F(LinearCudaTest, DependentLaunchesGiveTheSameBits) {
  for (const FormatCase& format :
       {FormatCase{WeightFormat::kBFloat16}, FormatCase{WeightFormat::kInt4, 128}}) {
    LinearCase c{format, DType::kBFloat16, {4096, 4096}, 8};
    check_chain(LinearScene(c, 9));
  }
}

TEST(LinearCudaTactics, CoverAnyNumberOfTokens) {
  for (const FormatCase& format : testing::cuda_formats()) {
    const WeightType type{format.format, 64, 256, format.group_size, format.has_minimum};
    for (const bool deterministic : {false, true}) {
      for (const int64_t count : {1, 2, 8, 9, 16, 17, 32, 33, 64, 65, 512, 100000}) {
        const auto takes = [&](const LinearTactic& tactic) {
          return count >= tactic.min_tokens && count <= tactic.max_tokens &&
                 (!deterministic || tactic.deterministic);
        };
        const std::span<const LinearTactic> tactics = cuda::linear_tactics(type, 90);
        EXPECT_TRUE(std::any_of(tactics.begin(), tactics.end(), takes))
            << testing::case_name(format) << " " << count;
        const LinearTactic& chosen = cuda::default_linear_tactic(type, 90, count);
        EXPECT_TRUE(count >= chosen.min_tokens && count <= chosen.max_tokens) << chosen.name;
      }
    }
  }
}

TEST(LinearCudaTactics, HaveNamesOfTheirOwn) {
  for (const FormatCase& format : testing::cuda_formats()) {
    const WeightType type{format.format, 64, 256, format.group_size, format.has_minimum};
    std::map<std::string_view, int> names;
    for (const LinearTactic& tactic : cuda::linear_tactics(type, 90)) {
      EXPECT_EQ(++names[tactic.name], 1) << tactic.name;
    }
  }
}

}  // namespace
}  // namespace zonda::kernels
