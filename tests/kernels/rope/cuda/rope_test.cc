// Laws of rotary embedding and cache append on the GPU: the reference's rotation, exact rounding,
// and only the named slots. SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/cuda/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "device/cuda/device_array.h"
#include "device/cuda/gpu_test.h"
#include "kernels/activation_bits.h"
#include "kernels/rope/cuda/cache_values.h"
#include "kernels/rope/kv_layout.h"

namespace zonda::kernels {
namespace {

constexpr int64_t kBlocks = 7;

// Tokens with random values, in a cache full of poison.
struct Case {
  cuda::RopeAppendParams params;
  std::vector<uint8_t> qkv;
  std::vector<int32_t> positions;
  std::vector<int64_t> slots;
  std::vector<int32_t> sets;
  std::vector<float> inv_freq;
  std::vector<uint8_t> cache;
  bool use_sets = false;

  explicit Case(std::mt19937& random) {
    constexpr int32_t kHeadSizes[] = {128, 64, 96, 16, 8, 80, 256, 10, 20};
    constexpr DType kTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3};
    PagedKv& kv = params.kv;
    kv.head_size = kHeadSizes[random() % std::size(kHeadSizes)];
    kv.num_kv_heads = 1 + static_cast<int32_t>(random() % 8);
    kv.block_size = 1 + static_cast<int32_t>(random() % 20);
    kv.dtype = kTypes[random() % 3];
    kv.block_stride =
        int64_t{2} * kv.num_kv_heads * kv.block_size * kv.head_size + (random() % 2 == 0 ? 16 : 5);
    params.activation = kTypes[random() % 2];
    params.num_heads = kv.num_kv_heads * (1 + static_cast<int32_t>(random() % 5));
    params.rotary_dim = random() % 2 == 0 ? kv.head_size : kv.head_size / 4 * 2;
    params.style = static_cast<RopeStyle>(random() % 3);
    params.attention_factor = random() % 2 == 0 ? 1.0f : 1.19f;
    params.num_tokens = static_cast<int64_t>(1 + random() % 40);
    const int64_t width = int64_t{params.num_heads + 2 * kv.num_kv_heads} * kv.head_size;
    params.qkv_stride = width + static_cast<int64_t>(random() % 2 == 0 ? 8 : random() % 3);
    qkv = test::to_bits(
        test::random_normal(random, static_cast<size_t>(params.num_tokens * params.qkv_stride), 2),
        params.activation);
    inv_freq.resize(static_cast<size_t>(params.rotary_dim));  // two sets
    for (size_t i = 0; i < inv_freq.size(); ++i) {
      inv_freq[i] = std::pow(10000.0f, -static_cast<float>(i) / 64.0f);
    }
    std::vector<int64_t> free(static_cast<size_t>(kBlocks * kv.block_size));
    std::iota(free.begin(), free.end(), 0);
    std::shuffle(free.begin(), free.end(), random);
    for (int64_t t = 0; t < params.num_tokens; ++t) {
      positions.push_back(static_cast<int32_t>(random() % 5 == 0 ? random() % 1000000 : t));
      const bool skip = random() % 5 == 0 || static_cast<size_t>(t) >= free.size();
      slots.push_back(skip ? -1 : free[static_cast<size_t>(t)]);
      sets.push_back(static_cast<int32_t>(random() % 2));
    }
    use_sets = random() % 2 == 0;
    cache.assign(static_cast<size_t>(kBlocks * kv.block_stride * dtype_size(kv.dtype)), 0xff);
  }

  // The rotated token, in double, and the sum of the magnitudes of its terms.
  struct Rotated {
    double value;
    double magnitude;
  };
  Rotated rotated(const std::vector<float>& before, int64_t token, int32_t head, int32_t d) const {
    const auto at = static_cast<size_t>(token * params.qkv_stride + head * params.kv.head_size);
    const double own = before[at + static_cast<size_t>(d)];
    if (params.style == RopeStyle::kNone || d >= params.rotary_dim ||
        head >= params.num_heads + params.kv.num_kv_heads) {
      return {own, 0};
    }
    const int32_t half = params.rotary_dim / 2;
    const bool neox = params.style == RopeStyle::kNeox;
    const int32_t pair = neox ? d % half : d / 2;
    const bool first = neox ? d < half : d % 2 == 0;
    const int32_t other = neox ? (first ? d + half : d - half) : d ^ 1;
    const auto t = static_cast<size_t>(token);
    const int64_t set = use_sets ? sets[t] : 0;
    const float angle =
        static_cast<float>(positions[t]) * inv_freq[static_cast<size_t>(set * half + pair)];
    const double c = std::cos(double{angle}) * double{params.attention_factor};
    const double s = std::sin(double{angle}) * double{params.attention_factor};
    const double partner = before[at + static_cast<size_t>(other)];
    return {first ? own * c - partner * s : own * c + partner * s,
            std::abs(own) + std::abs(partner)};
  }
};

// A few units of float32 arithmetic, and one rounding to `dtype` of what that gives.
double bound(const Case::Rotated& r, DType dtype) {
  const double arithmetic = r.magnitude * 1e-6;
  return arithmetic + test::half_unit(std::abs(r.value) + arithmetic, dtype);
}

class RopeCuda : public test::GpuTest {};

TEST_F(RopeCuda, RotatesAndAppendsLikeTheReferenceAndTouchesNothingElse) {
  std::mt19937 random(1);
  for (int i = 0; i < 120; ++i) {
    const Case c(random);
    test::DeviceArray<uint8_t> qkv(c.qkv);
    test::DeviceArray<uint8_t> cache(c.cache);
    test::DeviceArray<int32_t> positions(c.positions);
    test::DeviceArray<int64_t> slots(c.slots);
    test::DeviceArray<int32_t> sets(c.sets);
    test::DeviceArray<float> inv_freq(c.inv_freq);
    cuda::RopeAppendParams p = c.params;
    p.qkv = qkv.data();
    p.positions = positions.data();
    p.slots = slots.data();
    p.frequency_sets = c.use_sets ? sets.data() : nullptr;
    p.inv_freq = inv_freq.data();
    p.kv.base = cache.data();
    ASSERT_EQ(cuda::rope_append(p, {.stream = nullptr, .dependent = i % 2 == 1}), cudaSuccess);

    const auto before = test::to_values(c.qkv, p.activation);
    const auto after = test::to_values(qkv.read(), p.activation);
    std::vector<uint8_t> written = cache.read();
    const int32_t heads = p.num_heads + 2 * p.kv.num_kv_heads;
    for (int64_t t = 0; t < p.num_tokens; ++t) {
      const int64_t slot = c.slots[static_cast<size_t>(t)];
      for (int64_t e = 0; e < p.qkv_stride; ++e) {
        const auto at = static_cast<size_t>(t * p.qkv_stride + e);
        const auto head = static_cast<int32_t>(e / p.kv.head_size);
        const auto d = static_cast<int32_t>(e % p.kv.head_size);
        if (head >= heads) {
          ASSERT_EQ(after[at], before[at]);
          continue;
        }
        const Case::Rotated expected = c.rotated(before, t, head, d);
        if (expected.magnitude == 0) {
          ASSERT_EQ(after[at], before[at]);
        } else {
          ASSERT_NEAR(after[at], expected.value, bound(expected, p.activation)) << "case " << i;
        }
        if (head >= p.num_heads && slot >= 0) {
          const int32_t kv_head = head - p.num_heads;
          const int kind = kv_head >= p.kv.num_kv_heads;
          const int64_t to =
              kv_element_offset(p.kv, slot, kind, kv_head - kind * p.kv.num_kv_heads) + d;
          ASSERT_NEAR(test::element(written.data(), to, p.kv.dtype), expected.value,
                      bound(expected, p.kv.dtype))
              << "case " << i;
          const int64_t width = dtype_size(p.kv.dtype);
          std::fill_n(written.begin() + to * width, width, uint8_t{0xff});
        }
      }
    }
    ASSERT_EQ(written, c.cache) << "case " << i << ": a slot that was not named is written";
  }
}

TEST(RopeCudaParameters, WrongOnesAreRefused) {
  cuda::RopeAppendParams params{.num_tokens = 0, .qkv_stride = 384, .num_heads = 1};
  params.kv = {.block_stride = 4096,
               .block_size = 16,
               .num_kv_heads = 1,
               .head_size = 128,
               .dtype = DType::kBFloat16};
  params.rotary_dim = 128;
  EXPECT_EQ(cuda::rope_append(params, {}), cudaSuccess);
  const auto refused = [&](auto change) {
    cuda::RopeAppendParams wrong = params;
    change(wrong);
    EXPECT_EQ(cuda::rope_append(wrong, {}), cudaErrorInvalidValue);
  };
  refused([](auto& p) { p.rotary_dim = 129; });
  refused([](auto& p) { p.rotary_dim = 130; });
  refused([](auto& p) { p.qkv_stride = 383; });
  refused([](auto& p) { p.kv.dtype = DType::kFloat32; });
  refused([](auto& p) {
    p.num_tokens = 1;
    p.activation = DType::kFloat32;
  });
}

}  // namespace
}  // namespace zonda::kernels
