// Laws of rotary embedding and cache append: the rotation, exact rounding, and only the named
// slots. SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/isa_levels.h"
#include "kernels/rope/kv_layout.h"
#include "kernels/rope/sincos.h"

namespace zonda::kernels {
namespace {

constexpr int64_t kBlocks = 7;

// Tokens with random values, in a cache full of poison.
struct Case {
  RopeAppendParams params;
  std::vector<float> qkv;
  std::vector<int32_t> positions;
  std::vector<int64_t> slots;
  std::vector<int32_t> sets;
  std::vector<float> inv_freq;
  std::vector<std::byte> cache;

  explicit Case(std::mt19937& random) {
    constexpr int32_t kHeadSizes[] = {4, 10, 16, 20, 32, 64, 80, 128, 200};
    constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
    PagedKv& kv = params.kv;
    kv.head_size = kHeadSizes[random() % std::size(kHeadSizes)];
    kv.num_kv_heads = 1 + static_cast<int32_t>(random() % 3);
    kv.block_size = 1 + static_cast<int32_t>(random() % 20);
    kv.dtype = kTypes[random() % 3];
    kv.block_stride = int64_t{2} * kv.num_kv_heads * kv.block_size * kv.head_size + 5;
    params.num_heads = kv.num_kv_heads * (1 + static_cast<int32_t>(random() % 4));
    params.rotary_dim = random() % 2 == 0 ? kv.head_size : kv.head_size / 4 * 2;
    params.style = static_cast<RopeStyle>(random() % 3);
    params.attention_factor = random() % 2 == 0 ? 1.0f : 1.19f;
    params.num_tokens = static_cast<int64_t>(1 + random() % 40);
    const int64_t width = int64_t{params.num_heads + 2 * kv.num_kv_heads} * kv.head_size;
    params.qkv_stride = width + static_cast<int64_t>(random() % 3);
    std::normal_distribution<float> normal;
    qkv.resize(static_cast<size_t>(params.num_tokens * params.qkv_stride));
    for (float& value : qkv) {
      value = normal(random);
    }
    inv_freq.resize(static_cast<size_t>(params.rotary_dim));  // two sets
    for (size_t i = 0; i < inv_freq.size(); ++i) {
      inv_freq[i] = std::pow(10000.0f, -static_cast<float>(i) / 64.0f);
    }
    std::vector<int64_t> free(static_cast<size_t>(kBlocks * kv.block_size));
    std::iota(free.begin(), free.end(), 0);
    std::shuffle(free.begin(), free.end(), random);
    for (int64_t t = 0; t < params.num_tokens; ++t) {
      positions.push_back(static_cast<int32_t>(random() % 5 == 0 ? random() % 100000 : t));
      const bool skip = random() % 5 == 0 || static_cast<size_t>(t) >= free.size();
      slots.push_back(skip ? -1 : free[static_cast<size_t>(t)]);
      sets.push_back(static_cast<int32_t>(random() % 2));
    }
    use_sets_ = random() % 2 == 0;
    cache.assign(static_cast<size_t>(kBlocks * kv.block_stride * dtype_size(kv.dtype)),
                 std::byte{0x5a});
  }

  RopeAppendParams bound() {
    RopeAppendParams p = params;
    p.qkv = qkv.data();
    p.positions = positions.data();
    p.slots = slots.data();
    p.frequency_sets = use_sets_ ? sets.data() : nullptr;
    p.inv_freq = inv_freq.data();
    p.kv.base = cache.data();
    return p;
  }

 private:
  bool use_sets_ = false;
};

TEST(FastSinCos, ErrorStaysBelowTheStatedBound) {
  std::mt19937 random(1);
  for (int i = 0; i < 400000; ++i) {
    const float x = std::ldexp(1.0f + static_cast<float>(random() % 65536) / 65536.0f,
                               static_cast<int>(random() % 40) - 20) *
                    (random() % 2 == 0 ? 1.0f : -1.0f);
    float sine = 0;
    float cosine = 0;
    fast_sincos<Scalar>(x, &sine, &cosine);
    ASSERT_NEAR(sine, std::sin(double{x}), 1e-7) << x;
    ASSERT_NEAR(cosine, std::cos(double{x}), 1e-7) << x;
  }
}

TEST(RopeAppend, ReferenceRotatesPairsByPositionTimesFrequency) {
  std::mt19937 random(2);
  for (int i = 0; i < 30; ++i) {
    Case c(random);
    const std::vector<float> before = c.qkv;
    const RopeAppendParams p = c.bound();
    rope_append_reference(p);
    const int32_t half = p.rotary_dim / 2;
    for (int64_t t = 0; t < p.num_tokens; ++t) {
      for (int32_t e = 0; e < p.qkv_stride; ++e) {
        const auto at = static_cast<size_t>(t * p.qkv_stride + e);
        const int32_t head = e / p.kv.head_size;
        const int32_t d = e % p.kv.head_size;
        if (p.style == RopeStyle::kNone || head >= p.num_heads + p.kv.num_kv_heads ||
            d >= p.rotary_dim) {
          ASSERT_EQ(c.qkv[at], before[at]);
          continue;
        }
        const bool neox = p.style == RopeStyle::kNeox;
        const int32_t pair = neox ? d % half : d / 2;
        const bool first = neox ? d < half : d % 2 == 0;
        const auto x = at - static_cast<size_t>(d) + static_cast<size_t>(neox ? pair : 2 * pair);
        const auto y = x + static_cast<size_t>(neox ? half : 1);
        const int64_t set = p.frequency_sets == nullptr ? 0 : p.frequency_sets[t];
        const double angle = static_cast<float>(p.positions[t]) * p.inv_freq[set * half + pair];
        const double c0 = std::cos(angle) * double{p.attention_factor};
        const double s0 = std::sin(angle) * double{p.attention_factor};
        const double expected =
            first ? before[x] * c0 - before[y] * s0 : before[y] * c0 + before[x] * s0;
        ASSERT_NEAR(c.qkv[at], expected, 2e-6);
      }
    }
  }
}

TEST(RopeAppend, EveryIsaAndThreadCountGivesTheBitsOfTheReference) {
  std::mt19937 random(3);
  for (int i = 0; i < 150; ++i) {
    const Case original(random);
    Case expected = original;
    rope_append_reference(expected.bound());
    for (const int threads : {1, 2}) {
      device::ThreadPool pool(threads);
      for (const device::CpuIsa isa : isa_levels()) {
        device::Stream stream(pool, isa);
        Case c = original;
        rope_append(c.bound(), stream);
        ASSERT_EQ(c.qkv, expected.qkv) << device::cpu_isa_name(isa) << " case " << i;
        ASSERT_EQ(c.cache, expected.cache) << device::cpu_isa_name(isa) << " case " << i;
      }
    }
  }
}

TEST(RopeAppend, KeysAndValuesReachTheirSlotsRoundedToNearestEvenAndNothingElseChanges) {
  std::mt19937 random(4);
  for (int i = 0; i < 30; ++i) {
    Case c(random);
    std::vector<std::byte> expected = c.cache;
    const RopeAppendParams p = c.bound();
    rope_append_reference(p);
    const int64_t size = dtype_size(p.kv.dtype);
    for (int64_t t = 0; t < p.num_tokens; ++t) {
      for (int32_t head = 0; head < 2 * p.kv.num_kv_heads && c.slots[static_cast<size_t>(t)] >= 0;
           ++head) {
        const int64_t at = kv_element_offset(p.kv, c.slots[static_cast<size_t>(t)],
                                             head / p.kv.num_kv_heads, head % p.kv.num_kv_heads);
        for (int32_t d = 0; d < p.kv.head_size; ++d) {
          const float value = c.qkv[static_cast<size_t>(t * p.qkv_stride) +
                                    static_cast<size_t>((p.num_heads + head) * p.kv.head_size + d)];
          const uint16_t narrow =
              p.kv.dtype == DType::kBFloat16 ? float_to_bf16(value) : float_to_f16(value);
          const void* bits =
              p.kv.dtype == DType::kFloat32 ? static_cast<const void*>(&value) : &narrow;
          std::memcpy(expected.data() + (at + d) * size, bits, static_cast<size_t>(size));
        }
      }
    }
    ASSERT_EQ(c.cache, expected);
  }
}

TEST(RopeAppend, NarrowingTiesGoToEvenAndNaNStaysNaN) {
  device::ThreadPool pool(1);
  const float ties[16] = {1.0f + 0x1p-8f,
                          1.0f + 0x3p-8f,
                          -1.0f - 0x1p-8f,
                          1.0f + 0x1p-11f,
                          1.0f + 0x3p-11f,
                          65519.0f,
                          65520.0f,
                          -65520.0f,
                          0x1p-25f,
                          0x1.8p-25f,
                          0x1p-14f,
                          0x1.ffcp-15f,
                          std::numeric_limits<float>::infinity(),
                          -0.0f,
                          3.3e38f,
                          std::numeric_limits<float>::quiet_NaN()};
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const device::CpuIsa isa : isa_levels()) {
      device::Stream stream(pool, isa);
      std::vector<float> qkv(48, 0.0f);
      std::copy(ties, ties + 16, qkv.begin() + 16);
      std::vector<uint16_t> cache(32, 0);
      const int32_t position = 0;
      const int64_t slot = 0;
      rope_append({.qkv = qkv.data(),
                   .positions = &position,
                   .slots = &slot,
                   .kv = {.base = cache.data(),
                          .block_stride = 32,
                          .block_size = 1,
                          .num_kv_heads = 1,
                          .head_size = 16,
                          .dtype = dtype},
                   .num_tokens = 1,
                   .qkv_stride = 48,
                   .num_heads = 1,
                   .style = RopeStyle::kNone},
                  stream);
      for (size_t i = 0; i + 1 < 16; ++i) {
        EXPECT_EQ(cache[i],
                  dtype == DType::kFloat16 ? float_to_f16(ties[i]) : float_to_bf16(ties[i]));
      }
      EXPECT_TRUE(std::isnan(dtype == DType::kFloat16 ? f16_to_float(cache[15])
                                                      : bf16_to_float(cache[15])));
    }
  }
}

}  // namespace
}  // namespace zonda::kernels
