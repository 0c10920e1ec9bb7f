// Laws of attention: softmax over the visible keys, and bits that depend on the token alone.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/attention/attention_scene.h"
#include "kernels/isa_levels.h"

namespace zonda::kernels {
namespace {

// The formula in double precision for one token.
std::vector<double> exact_token(const HeadShape& s, int id, int32_t position) {
  std::vector<double> out;
  const int32_t begin = s.window > 0 ? std::max(0, position + 1 - s.window) : 0;
  for (int32_t head = 0; head < s.num_heads; ++head) {
    const int32_t kv_head = head / (s.num_heads / s.num_kv_heads);
    std::vector<double> weights;
    double total = 0;
    for (int32_t k = begin; k <= position; ++k) {
      double score = 0;
      for (int32_t d = 0; d < s.head_size; ++d) {
        score += double{Scene::query(s, id, position, head, d)} *
                 double{Scene::stored(s, id, k, 0, kv_head, d)};
      }
      score /= std::sqrt(double(s.head_size));
      if (s.soft_cap > 0) {
        score = s.soft_cap * std::tanh(score / s.soft_cap);
      }
      weights.push_back(std::exp(score));
      total += weights.back();
    }
    for (int32_t d = 0; d < s.head_size; ++d) {
      double value = 0;
      for (int32_t k = begin; k <= position; ++k) {
        value += weights[static_cast<size_t>(k - begin)] *
                 double{Scene::stored(s, id, k, 1, kv_head, d)};
      }
      out.push_back(value / total);
    }
  }
  return out;
}

TEST(Attention, ReferenceIsSoftmaxAttentionInDoublePrecision) {
  std::mt19937 random(1);
  for (int i = 0; i < 12; ++i) {
    const HeadShape shape = random_shape(random);
    Scene scene(shape, random_chunks(random), random_layout(random));
    for (const auto& [token, out] : scene.by_token(scene.run_reference())) {
      if (random() % 8 != 0) {
        continue;
      }
      const std::vector<double> exact = exact_token(shape, token.first, token.second);
      ASSERT_EQ(out.size(), exact.size());
      for (size_t e = 0; e < exact.size(); ++e) {
        ASSERT_NEAR(out[e], exact[e], 5e-6);
      }
    }
  }
}

TEST(Attention, EveryIsaAndThreadCountGivesTheBitsOfTheReference) {
  std::mt19937 random(2);
  for (int i = 0; i < 40; ++i) {
    const HeadShape shape = random_shape(random);
    Scene scene(shape, random_chunks(random), random_layout(random));
    const std::vector<float> expected = scene.run_reference();
    ASSERT_FALSE(expected.empty());
    for (const int threads : {1, 2, 5}) {
      device::ThreadPool pool(threads);
      for (const device::CpuIsa isa : isa_levels()) {
        if (isa == device::CpuIsa::kPortable && (threads != 2 || i % 4 != 0)) {
          continue;  // the reference itself, which is slow
        }
        device::Stream stream(pool, isa);
        ASSERT_EQ(scene.run(stream), expected)
            << device::cpu_isa_name(isa) << " threads " << threads << " case " << i;
      }
    }
  }
}

// Runs the same tokens in two arrangements and compares what both computed.
void expect_same_tokens(const HeadShape& shape, std::vector<Chunk> chunks, const Layout& layout,
                        std::vector<Chunk> other_chunks, const Layout& other_layout,
                        size_t expected_common) {
  device::ThreadPool pool(2);
  device::ThreadPool other_pool(3);
  device::Stream stream(pool);
  device::Stream other_stream(other_pool);
  Scene scene(shape, std::move(chunks), layout);
  Scene other(shape, std::move(other_chunks), other_layout);
  const auto tokens = scene.by_token(scene.run(stream));
  const auto others = other.by_token(other.run(other_stream));
  size_t common = 0;
  for (const auto& [token, out] : tokens) {
    const auto found = others.find(token);
    if (found != others.end()) {
      ++common;
      ASSERT_EQ(out, found->second) << "sequence " << token.first << " position " << token.second;
    }
  }
  EXPECT_EQ(common, expected_common);
}

constexpr HeadShape kSmolLm{.num_heads = 9, .num_kv_heads = 3, .head_size = 64};

TEST(Attention, ATokenHasTheSameBitsAloneAndInAnyBatch) {
  for (const DType dtype : kKvTypes) {
    HeadShape shape = kSmolLm;
    shape.dtype = dtype;
    const std::vector<Chunk> batch = {{3, 0, 40},  {1, 700, 1}, {2, 64, 1}, {4, 5, 1},
                                      {5, 127, 2}, {6, 63, 1},  {7, 300, 9}};
    for (const Chunk& chunk : batch) {
      expect_same_tokens(shape, {chunk}, {}, batch, {}, static_cast<size_t>(chunk.count));
    }
  }
}

TEST(Attention, ATokenHasTheSameBitsForAnyChunking) {
  for (const DType dtype : kKvTypes) {
    HeadShape shape = kSmolLm;
    shape.dtype = dtype;
    for (const int32_t size : {1, 2, 7, 64, 100}) {
      for (int32_t start = 0; start < 200; start += size * 3) {
        const int32_t count = std::min(size, 200 - start);
        expect_same_tokens(shape, {{1, 0, 200}}, {}, {{1, start, count}}, {},
                           static_cast<size_t>(count));
      }
    }
  }
}

TEST(Attention, ATokenHasTheSameBitsForAnyBlockIdsAndBlockSize) {
  for (const DType dtype : kKvTypes) {
    HeadShape shape = kSmolLm;
    shape.dtype = dtype;
    const std::vector<Chunk> chunks = {{1, 150, 20}, {2, 500, 1}};
    for (const int32_t block_size : {1, 8, 16, 24, 64, 256, 1024}) {
      expect_same_tokens(shape, chunks, {}, chunks,
                         {.block_size = block_size, .seed = 77, .block_padding = 8}, 21);
    }
  }
}

TEST(Attention, ALongContextSplitOverThreadsHasTheBitsOfOneThread) {
  HeadShape shape{.num_heads = 4, .num_kv_heads = 2, .head_size = 16, .dtype = DType::kBFloat16};
  for (const int32_t window : {0, 3000}) {
    shape.window = window;
    for (const int32_t tokens : {1, 2, 4}) {
      // More ranges than one wave keeps apart, and a second, shorter sequence in the same step.
      std::vector<Chunk> chunks = {{1, 9000, tokens}};
      if (tokens < 4) {
        chunks.push_back({2, 100, 1});
      }
      Scene scene(shape, chunks, {});
      device::ThreadPool alone(1);
      device::Stream single(alone);
      const std::vector<float> expected = scene.run(single);
      for (const int threads : {2, 3, 8}) {
        device::ThreadPool pool(threads);
        device::Stream stream(pool);
        ASSERT_EQ(scene.run(stream), expected) << threads << " threads, window " << window;
      }
    }
  }
}

TEST(Attention, LaterTokensOfAChunkDoNotReachEarlierOnes) {
  device::ThreadPool pool(2);
  for (const device::CpuIsa isa : isa_levels()) {
    device::Stream stream(pool, isa);
    Scene clean(kSmolLm, {{1, 0, 100}}, {});
    Scene dirty(kSmolLm, {{1, 0, 100}}, {});
    dirty.set_value(0, 70, std::numeric_limits<float>::infinity());
    const std::vector<float> expected = clean.run(stream);
    const std::vector<float> out = dirty.run(stream);
    const auto seen = static_cast<std::ptrdiff_t>(70 * clean.width());
    EXPECT_TRUE(std::equal(expected.begin(), expected.begin() + seen, out.begin()));
    EXPECT_TRUE(std::isinf(out[static_cast<size_t>(seen)]) ||
                std::isnan(out[static_cast<size_t>(seen)]));
  }
}

TEST(Attention, BlocksBehindTheWindowAreNeverRead) {
  HeadShape shape = kSmolLm;
  shape.window = 50;
  device::ThreadPool pool(2);
  for (const device::CpuIsa isa : isa_levels()) {
    device::Stream stream(pool, isa);
    for (const int32_t count : {1, 30}) {
      Scene scene(shape, {{1, 300, count}}, {});
      const std::vector<float> expected = scene.run(stream);
      scene.forget_blocks_before(0, 300 - 49);
      EXPECT_EQ(scene.run(stream), expected);
    }
  }
}

TEST(Attention, TheFirstTokenReturnsItsOwnValue) {
  device::ThreadPool pool(1);
  for (const device::CpuIsa isa : isa_levels()) {
    device::Stream stream(pool, isa);
    Scene scene(kSmolLm, {{1, 0, 1}}, {});
    const std::vector<float> out = scene.run(stream);
    for (int32_t head = 0; head < 9; ++head) {
      for (int32_t d = 0; d < 64; ++d) {
        EXPECT_EQ(out[static_cast<size_t>(head * 64 + d)],
                  Scene::stored(kSmolLm, 1, 0, 1, head / 3, d));
      }
    }
  }
}

}  // namespace
}  // namespace zonda::kernels
