// Laws of attention on the GPU: the double-precision values, and the same bits whatever the batch,
// the chunks and the block ids. SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cuda/attention.h"

#include <gtest/gtest.h>

#include "device/cuda/gpu_test.h"
#include "kernels/attention/cuda/decode_split.h"
#include "kernels/attention/cuda/device_scene.h"

namespace zonda::kernels {
namespace {

using Kernel = DeviceScene::Kernel;

class AttentionCuda : public test::GpuTest {
 protected:
  // `step`: only every step-th token of a chunk is compared, the last one always.
  void compare(DeviceScene& scene, Kernel kernel, int32_t step, const std::string& what) {
    const TokenBits out = scene.run(kernel);
    double worst = 0;
    for (const Chunk& chunk : scene.chunks()) {
      for (int32_t i = chunk.count - 1; i >= 0; i -= step) {
        const int32_t position = chunk.start + i;
        const std::vector<Expected> expected = scene.expected(chunk, position);
        const std::vector<uint16_t>& bits = out.at({chunk.id, position});
        for (size_t e = 0; e < expected.size(); ++e) {
          const double value = scene.value(bits[e]);
          const double bound = scene.bound(expected[e]);
          ASSERT_NEAR(value, expected[e].value, bound)
              << what << " sequence " << chunk.id << " position " << position << " element " << e;
          worst = std::max(worst, std::abs(value - expected[e].value) / bound);
        }
      }
    }
    worst_ = std::max(worst_, worst);
  }
  void TearDown() override {
    if (worst_ > 0) {
      RecordProperty("worst_fraction_of_bound", std::to_string(worst_));
    }
    GpuTest::TearDown();
  }
  double worst_ = 0;
};

std::string describe(const DeviceShape& s) {
  return std::to_string(s.num_heads) + "/" + std::to_string(s.num_kv_heads) + " heads of " +
         std::to_string(s.head_size) + ", cache " + std::string(dtype_name(s.cache)) + ", " +
         std::string(dtype_name(s.activation)) + ", window " + std::to_string(s.window) +
         ", blocks of " + std::to_string(s.block_size);
}

// Every head size, cache type, group size, block size and option at least once.
std::vector<DeviceShape> shapes() {
  std::vector<DeviceShape> all;
  constexpr DType kCaches[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3};
  constexpr int32_t kGroups[] = {4, 1, 8, 7, 3, 16, 2, 11};
  constexpr int32_t kBlocks[] = {32, 16, 8, 64, 128};
  constexpr int32_t kHeadSizes[] = {128, 64, 96, 256, 80, 8, 72, 120, 200, 248};
  uint32_t i = 0;
  for (const int32_t head_size : kHeadSizes) {
    for (const DType cache : kCaches) {
      DeviceShape s;
      s.head_size = head_size;
      s.cache = cache;
      s.num_kv_heads = 1 + static_cast<int32_t>(i % 3);
      s.num_heads = s.num_kv_heads * kGroups[i % std::size(kGroups)];
      s.activation = i % 4 == 3 ? DType::kFloat16 : DType::kBFloat16;
      s.block_size = kBlocks[i % std::size(kBlocks)];
      s.window = i % 3 == 1 ? 70 : 0;
      s.soft_cap = i % 4 == 2 ? 1.5f : 0.0f;
      all.push_back(s);
      ++i;
    }
  }
  return all;
}

constexpr int32_t kLengths[] = {1,  2,   15,  16,  17,  31,  32,  33,   63,  64,
                                65, 127, 128, 129, 200, 513, 700, 1100, 2100};

std::vector<Chunk> single_tokens() {
  std::vector<Chunk> chunks;
  for (const int32_t length : kLengths) {
    chunks.push_back({static_cast<int>(chunks.size()), length - 1, 1});
  }
  chunks.insert(chunks.begin() + 3, {100, 0, 0});
  return chunks;
}

TEST_F(AttentionCuda, DecodeEqualsTheReferenceUpToRounding) {
  uint32_t seed = 1;
  for (const DeviceShape& shape : shapes()) {
    DeviceScene scene(shape, single_tokens(), seed++);
    compare(scene, Kernel::kDecode, 1, describe(shape));
  }
}

TEST_F(AttentionCuda, DecodeDoesNotDependOnTheBatchTheBlocksOrTheBound) {
  for (const DType cache : {DType::kBFloat16, DType::kFloat8E4M3}) {
    DeviceShape shape{.num_heads = 32, .num_kv_heads = 8, .cache = cache};
    const TokenBits together = DeviceScene(shape, single_tokens(), 1).run(Kernel::kDecode);
    EXPECT_EQ(together, DeviceScene(shape, single_tokens(), 2).run(Kernel::kDecode, 40000, 5));
    shape.block_size = 8;
    for (const Chunk& chunk : single_tokens()) {
      const TokenBits alone = DeviceScene(shape, {chunk}, 3).run(Kernel::kDecode);
      for (const auto& [token, bits] : alone) {
        EXPECT_EQ(bits, together.at(token)) << "position " << token.second;
      }
    }
  }
}

// From 1 sequence, whose blocks form clusters, to many, whose rows are cut anywhere.
TEST_F(AttentionCuda, DecodeDoesNotDependOnTheNumberOfSequences) {
  for (const DType cache : {DType::kBFloat16, DType::kFloat8E4M3}) {
    const DeviceShape shape{.num_heads = 32, .num_kv_heads = 8, .cache = cache};
    std::mt19937 random(5);
    std::vector<Chunk> many;
    for (int id = 0; id < 70; ++id) {
      const bool is_long = id % 30 == 7;
      const auto start = static_cast<int32_t>(random() % (is_long ? 5000 : 300));
      many.push_back({id, start, id % 9 == 5 ? 0 : 1});
    }
    const TokenBits all = DeviceScene(shape, many, 1).run(Kernel::kDecode, 0, 3);
    for (const size_t count : {1, 2, 5, 8, 17}) {
      const std::vector<Chunk> few(many.begin() + 7, many.begin() + 7 + static_cast<int>(count));
      for (const int32_t bound : {0, 9000}) {
        for (const auto& [token, bits] : DeviceScene(shape, few, 2).run(Kernel::kDecode, bound)) {
          ASSERT_EQ(bits, all.at(token))
              << count << " sequences, bound " << bound << ", sequence " << token.first;
        }
      }
    }
  }
}

TEST_F(AttentionCuda, LongContextsEqualTheReference) {
  for (const DType cache : {DType::kBFloat16, DType::kFloat8E4M3}) {
    const DeviceShape shape{.num_heads = 4, .num_kv_heads = 1, .cache = cache};
    for (const int32_t length : {4097, 9000}) {
      DeviceScene scene(shape, {{0, length, 1}}, 1);
      compare(scene, Kernel::kDecode, 1, "long");
    }
  }
}

TEST_F(AttentionCuda, BlocksBehindTheWindowAreNotRead) {
  for (const int32_t window : {1, 33, 64, 100}) {
    const DeviceShape shape{.window = window};
    const std::vector<Chunk> chunks = {{0, 500, 1}, {1, 63, 1}, {2, 64, 1}, {3, 127, 1}};
    for (const Kernel kernel : {Kernel::kDecode, Kernel::kPrefill}) {
      DeviceScene scene(shape, chunks, 4);
      const TokenBits before = scene.run(kernel);
      for (size_t c = 0; c < chunks.size(); ++c) {
        scene.forget_blocks_before(c, std::max(0, chunks[c].start + 1 - window));
      }
      EXPECT_EQ(scene.run(kernel), before) << "window " << window;
    }
  }
}

TEST_F(AttentionCuda, PrefillEqualsTheReferenceUpToRounding) {
  uint32_t seed = 1;
  for (const DeviceShape& shape : shapes()) {
    DeviceScene scene(shape, {{0, 0, 150}, {1, 77, 1}, {2, 0, 0}, {3, 190, 70}, {4, 300, 129}},
                      seed++);
    compare(scene, Kernel::kPrefill, 7, describe(shape));
  }
}

TEST_F(AttentionCuda, PrefillOfOddAndEvenGroupsEqualsTheReference) {
  for (const DType cache : {DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3}) {
    for (const int32_t head_size : {64, 128}) {
      for (const int32_t group : {1, 2, 3, 4}) {
        const DeviceShape shape{.num_heads = 2 * group,
                                .num_kv_heads = 2,
                                .head_size = head_size,
                                .cache = cache,
                                .window = group == 4 ? 150 : 0};
        DeviceScene scene(shape, {{0, 0, 300}, {1, 500, 40}, {2, 129, 129}}, 1);
        compare(scene, Kernel::kPrefill, 29, describe(shape));
      }
    }
  }
}

TEST_F(AttentionCuda, PrefillDoesNotDependOnTheChunksOrTheBlocks) {
  for (const DType cache : {DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3}) {
    for (const int32_t head_size : {64, 96, 128, 256}) {
      for (const int32_t window : {0, 100}) {
        DeviceShape shape{
            .head_size = head_size, .cache = cache, .window = window, .soft_cap = 3.0f};
        const TokenBits whole = DeviceScene(shape, {{0, 0, 400}}, 1).run(Kernel::kPrefill);
        shape.block_size = 16;
        for (const int32_t size : {1, 37, 64, 130}) {
          for (int32_t start = 0; start < 400; start += size) {
            if (size == 1 && start % 23 != 0) {
              continue;
            }
            const Chunk chunk{0, start, std::min(size, 400 - start)};
            for (const auto& [token, bits] :
                 DeviceScene(shape, {{9, 30, 5}, chunk}, 2).run(Kernel::kPrefill)) {
              if (token.first == 0) {
                ASSERT_EQ(bits, whole.at(token))
                    << describe(shape) << " chunk of " << size << " position " << token.second;
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(AttentionCuda, ALongPromptEqualsTheReference) {
  const DeviceShape shape{.num_heads = 4, .num_kv_heads = 1};
  DeviceScene scene(shape, {{0, 1000, 2000}}, 1);
  compare(scene, Kernel::kPrefill, 331, "long");
}

// More tiles of queries than a device has multiprocessors, and more than 32 sequences.
TEST_F(AttentionCuda, ManySequencesOfOneLaunchAreComputedOnce) {
  std::vector<Chunk> chunks;
  for (int id = 0; id < 70; ++id) {
    chunks.push_back({id, id % 3 == 0 ? 0 : id * 11 % 190, id % 7 == 3 ? 0 : 1 + id * 37 % 290});
  }
  for (const int32_t head_size : {64, 128}) {
    const DeviceShape shape{.num_heads = 8, .num_kv_heads = 2, .head_size = head_size};
    DeviceScene scene(shape, chunks, 1);
    compare(scene, Kernel::kPrefill, 83, "many sequences");
    const TokenBits together = scene.run(Kernel::kPrefill);
    EXPECT_EQ(together, scene.run(Kernel::kPrefill, 40000, 3));
    for (const auto& [token, bits] : together) {
      EXPECT_EQ(std::count(bits.begin(), bits.end(), 0xffff), 0) << token.first;
    }
    for (size_t i = 1; i < chunks.size(); i += 13) {
      for (const auto& [token, bits] : DeviceScene(shape, {chunks[i]}, 2).run(Kernel::kPrefill)) {
        EXPECT_EQ(bits, together.at(token)) << token.first << " at " << token.second;
      }
    }
  }
}

// The bound of the comparisons above, without a GPU: a result that lacks a tile of a long sequence,
// or nearly any one key of a short one, is beyond it.
TEST(AttentionCudaBound, IsBelowALostTileAndMostLostKeys) {
  for (const DType cache : {DType::kBFloat16, DType::kFloat8E4M3}) {
    const DeviceScene scene({.num_heads = 4, .num_kv_heads = 1, .cache = cache}, {{0, 2099, 1}}, 1);
    const auto is_found = [&](int32_t position, int32_t lost, int32_t count) {
      const std::vector<Expected> right = scene.expected(scene.chunks()[0], position);
      const std::vector<Expected> wrong = scene.expected(scene.chunks()[0], position, lost, count);
      for (size_t e = 0; e < right.size(); ++e) {
        if (std::abs(right[e].value - wrong[e].value) > scene.bound(right[e])) {
          return true;
        }
      }
      return false;
    };
    for (int32_t tile = 0; tile < 2100; tile += 64) {
      EXPECT_TRUE(is_found(2099, tile, 64)) << "tile at " << tile;
    }
    int32_t found = 0;
    for (int32_t key = 0; key < 128; ++key) {
      found += is_found(127, key, 1) ? 1 : 0;
    }
    EXPECT_GE(found, 100);
  }
}

TEST(AttentionCudaParameters, WrongOnesAreRefused) {
  cuda::AttentionParams params{.num_sequences = 1, .q_stride = 1024, .out_stride = 1024};
  params.num_heads = 8;
  params.max_kv_length = 1;
  params.kv = {.block_stride = 8192,
               .block_size = 16,
               .num_kv_heads = 2,
               .head_size = 128,
               .dtype = DType::kBFloat16};
  const auto refused = [&](auto change) {
    cuda::AttentionParams wrong = params;
    change(wrong);
    EXPECT_EQ(cuda::decode_attention(wrong, {}), cudaErrorInvalidValue);
    EXPECT_EQ(cuda::prefill_attention(wrong, {}), cudaErrorInvalidValue);
  };
  refused([](auto& p) { p.num_heads = 7; });
  refused([](auto& p) { p.kv.head_size = 100; });
  refused([](auto& p) { p.kv.head_size = 264; });
  refused([](auto& p) { p.kv.block_size = 24; });
  refused([](auto& p) { p.kv.dtype = DType::kFloat32; });
  refused([](auto& p) { p.q_stride = 1016; });
  refused([](auto& p) { p.activation = DType::kFloat32; });
  refused([](auto& p) { p.scale = 0.0f; });
}

// The division of keys among blocks, without a GPU.
TEST(DecodeSplit, SharesCoverEveryTileOnceAndAreNoMoreThanPromised) {
  for (const auto& [heads, kv_heads] : {std::pair{32, 8}, {8, 8}, {71, 1}, {28, 4}, {256, 128}}) {
    const cuda::DecodeSplit split = cuda::decode_split(heads, kv_heads);
    EXPECT_GE(split.group_tiles * cuda::kDecodeHeads * kv_heads, heads);
    int32_t most = 0;
    for (int32_t end = 1; end < 20000; end += end < 3000 ? 1 : 61) {
      for (const int32_t begin : {0, end / 2, end - 1}) {
        const cuda::DecodeShares s = cuda::decode_shares(split, begin, end);
        EXPECT_EQ(s.first, begin / cuda::kDecodeTile);
        EXPECT_EQ(s.last, (end + cuda::kDecodeTile - 1) / cuda::kDecodeTile);
        EXPECT_LT(s.first + (s.count - 1) * s.each, s.last);
        EXPECT_GE(s.first + s.count * s.each, s.last);
        EXPECT_LE(s.count, split.shares);
        most = std::max(most, s.count);
        ASSERT_GE(cuda::most_decode_shares(split, end), most) << end;
      }
    }
  }
}

TEST(DecodeSplit, PlansFitTheDevice) {
  for (const int32_t rows : {1, 8, 64, 66, 67, 256, 4096}) {
    for (const int32_t length : {1, 100, 512, 1024, 1025, 4096, 40000}) {
      const cuda::DecodeSplit split = cuda::decode_split(32, 8);
      const int32_t shares = cuda::most_decode_shares(split, length);
      const cuda::DecodePlan plan = cuda::decode_plan(split, rows, length, 132, 2, true);
      if (plan.cluster > 0) {
        EXPECT_EQ(plan.blocks, rows * plan.cluster);
        EXPECT_LE(plan.blocks, 132);
        EXPECT_LE(shares, plan.cluster * cuda::kSharesOfClusterBlock);
      } else {
        EXPECT_LE(plan.blocks, 264);
        EXPECT_LE(plan.blocks, rows * shares);
      }
      EXPECT_EQ(cuda::decode_plan(split, rows, length, 132, 2, false).cluster, 0);
    }
  }
}

}  // namespace
}  // namespace zonda::kernels
