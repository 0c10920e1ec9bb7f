// Laws of the fused decode on the GPU: the bits of rope_append and decode_attention one after the
// other, in the outputs and in the cache. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "device/cuda/device_array.h"
#include "device/cuda/gpu_test.h"
#include "kernels/activation_bits.h"
#include "kernels/attention/cuda/attention.h"
#include "kernels/rope/cuda/cache_values.h"

namespace zonda::kernels {
namespace {

constexpr int32_t kLengths[] = {1,  2,  15, 16,  17,  32,  33,  63,  64,
                                65, 80, 81, 128, 129, 200, 257, 700, 1500};

struct Outcome {
  std::vector<uint16_t> out;
  std::vector<uint8_t> cache;
  std::vector<uint8_t> qkv;
};

// One new token in each of several sequences, every fifth place unused.
struct Batch {
  cuda::RopeAppendParams rope;
  cuda::AttentionParams attention;
  std::vector<uint8_t> qkv;
  std::vector<uint8_t> cache;
  std::vector<float> inv_freq;
  std::vector<int32_t> token_begin, num_tokens, positions, sets, tables;
  std::vector<int64_t> slots;
  bool use_sets = false;

  explicit Batch(std::mt19937& random) {
    constexpr int32_t kHeadSizes[] = {128, 64, 256, 96, 80, 16, 120};
    constexpr DType kTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3};
    constexpr int32_t kGroups[] = {4, 1, 8, 7, 16, 11};
    PagedKv& kv = rope.kv;
    kv.head_size = kHeadSizes[random() % std::size(kHeadSizes)];
    kv.num_kv_heads = 1 + static_cast<int32_t>(random() % 4);
    kv.block_size = 8 << random() % 5;
    kv.dtype = kTypes[random() % 3];
    kv.block_stride = int64_t{2} * kv.num_kv_heads * kv.block_size * kv.head_size + 16;
    rope.activation = kTypes[random() % 2];
    rope.num_heads = kv.num_kv_heads * kGroups[random() % std::size(kGroups)];
    rope.rotary_dim = random() % 2 == 0 ? kv.head_size / 16 * 16 : 16;
    rope.style = static_cast<RopeStyle>(random() % 3);
    rope.attention_factor = random() % 2 == 0 ? 1.0f : 1.19f;
    const int64_t width = int64_t{rope.num_heads + 2 * kv.num_kv_heads} * kv.head_size;
    rope.qkv_stride = width + 8;
    attention.window = random() % 3 == 0 ? 70 : 0;
    attention.soft_cap = random() % 3 == 0 ? 1.5f : 0.0f;
    use_sets = random() % 2 == 0;
    place(random);
    qkv = test::to_bits(
        test::random_normal(random, static_cast<size_t>(rope.num_tokens * rope.qkv_stride), 2),
        rope.activation);
    inv_freq.resize(static_cast<size_t>(rope.rotary_dim));  // two sets
    for (size_t i = 0; i < inv_freq.size(); ++i) {
      inv_freq[i] = std::pow(10000.0f, -static_cast<float>(i) / 64.0f);
    }
  }

  void place(std::mt19937& random) {
    PagedKv& kv = rope.kv;
    const auto sequences = static_cast<int32_t>(std::size(kLengths));
    attention.table_stride = (kLengths[sequences - 1] + kv.block_size - 1) / kv.block_size + 1;
    tables.assign(static_cast<size_t>(sequences * attention.table_stride), 0);
    int32_t blocks = 1;  // block 0 stays NaN
    std::vector<int32_t> tokens(static_cast<size_t>(sequences));
    std::iota(tokens.begin(), tokens.end(), 0);
    std::shuffle(tokens.begin(), tokens.end(), random);
    slots.assign(tokens.size(), -1);
    positions.assign(tokens.size(), 0);
    for (int32_t s = 0; s < sequences; ++s) {
      const auto token = static_cast<size_t>(tokens[static_cast<size_t>(s)]);
      const int32_t position = kLengths[s] - 1;
      const bool used = s % 5 != 4;
      token_begin.push_back(static_cast<int32_t>(token));
      num_tokens.push_back(used ? 1 : 0);
      start_position.push_back(position);
      positions[token] = position;
      sets.push_back(static_cast<int32_t>(random() % 2));
      if (!used) {
        continue;
      }
      const int64_t row = s * attention.table_stride;
      for (int32_t b = 0; b <= position / kv.block_size; ++b) {
        tables[static_cast<size_t>(row + b)] = blocks++;
      }
      slots[token] = int64_t{blocks - 1} * kv.block_size + position % kv.block_size;
    }
    rope.num_tokens = sequences;
    attention.num_sequences = sequences;
    attention.max_kv_length = kLengths[sequences - 1] + static_cast<int32_t>(random() % 2 * 5000);
    const int64_t elements = kv.block_stride * blocks;
    cache.assign(static_cast<size_t>(elements * dtype_size(kv.dtype)), 0xff);
    std::normal_distribution<float> normal;
    for (int64_t e = kv.block_stride; e < elements; ++e) {
      test::put_element(cache.data(), e, normal(random), kv.dtype);
    }
  }

  Outcome run(bool fused, bool appends = true) {
    test::DeviceArray<uint8_t> d_qkv(qkv);
    test::DeviceArray<uint8_t> d_cache(cache);
    test::DeviceArray<float> d_inv_freq(inv_freq);
    test::DeviceArray<int32_t> d_begin(token_begin);
    test::DeviceArray<int32_t> d_counts(num_tokens);
    test::DeviceArray<int32_t> d_starts(start_position);
    test::DeviceArray<int32_t> d_positions(positions);
    test::DeviceArray<int32_t> d_sets(sets);
    test::DeviceArray<int32_t> d_tables(tables);
    test::DeviceArray<int64_t> d_slots(appends ? slots : std::vector<int64_t>(slots.size(), -1));
    const int64_t width = int64_t{rope.num_heads} * rope.kv.head_size;
    test::DeviceArray<uint16_t> d_out(static_cast<size_t>(rope.num_tokens * width));
    test::DeviceArray<uint8_t> workspace(static_cast<size_t>(cuda::attention_workspace_bytes(
        attention.num_sequences, rope.num_heads, rope.kv.num_kv_heads, rope.kv.head_size)));
    test::DeviceArray<uint32_t> arrivals(
        std::vector<uint32_t>(static_cast<size_t>(attention.num_sequences * rope.num_heads)));
    cuda::RopeAppendParams r = rope;
    r.qkv = d_qkv.data();
    r.positions = fused ? nullptr : d_positions.data();
    r.slots = d_slots.data();
    r.frequency_sets = use_sets ? d_sets.data() : nullptr;
    r.inv_freq = d_inv_freq.data();
    r.kv.base = d_cache.data();
    cuda::AttentionParams a = attention;
    a.q = r.qkv;
    a.out = d_out.data();
    a.token_begin = d_begin.data();
    a.num_tokens = d_counts.data();
    a.start_position = d_starts.data();
    a.block_tables = d_tables.data();
    a.kv = r.kv;
    a.workspace = reinterpret_cast<std::byte*>(workspace.data());
    a.arrivals = arrivals.data();
    a.q_stride = r.qkv_stride;
    a.out_stride = width;
    a.num_heads = r.num_heads;
    a.scale = 1.0f / std::sqrt(static_cast<float>(r.kv.head_size));
    a.activation = r.activation;
    if (fused) {
      EXPECT_EQ(cuda::fused_decode_attention(a, r, {}), cudaSuccess);
    } else {
      EXPECT_EQ(cuda::rope_append(r, {}), cudaSuccess);
      EXPECT_EQ(cuda::decode_attention(a, {.stream = nullptr, .dependent = true}), cudaSuccess);
    }
    EXPECT_EQ(arrivals.read(), std::vector<uint32_t>(arrivals.size()));
    workspace.read();
    return {d_out.read(), d_cache.read(), d_qkv.read()};
  }

  std::vector<int32_t> start_position;
};

class FusedDecodeCuda : public test::GpuTest {};

TEST_F(FusedDecodeCuda, EqualsRopeAppendAndDecodeToTheBit) {
  std::mt19937 random(1);
  for (int i = 0; i < 80; ++i) {
    Batch batch(random);
    const std::string what = "case " + std::to_string(i) + ", " +
                             std::string(dtype_name(batch.rope.kv.dtype)) + ", heads of " +
                             std::to_string(batch.rope.kv.head_size);
    const Outcome apart = batch.run(false);
    const Outcome fused = batch.run(true);
    ASSERT_EQ(fused.out, apart.out) << what;
    ASSERT_EQ(fused.cache, apart.cache) << what;
    ASSERT_EQ(fused.qkv, batch.qkv) << what;
    ASSERT_NE(apart.cache, batch.cache) << what;
    const Outcome without = batch.run(true, false);
    ASSERT_EQ(without.out, apart.out) << what;
    ASSERT_EQ(without.cache, batch.cache) << what;
  }
}

TEST(FusedDecodeCudaParameters, WhatCannotBeFusedIsRefused) {
  const PagedKv kv{.block_stride = 8192,
                   .block_size = 16,
                   .num_kv_heads = 2,
                   .head_size = 128,
                   .dtype = DType::kBFloat16};
  const cuda::RopeAppendParams rope{
      .kv = kv, .qkv_stride = 1536, .num_heads = 8, .rotary_dim = 128};
  const cuda::AttentionParams attention{
      .kv = kv, .q_stride = 1536, .out_stride = 1024, .num_heads = 8};
  EXPECT_EQ(cuda::fused_decode_attention(attention, rope, {}), cudaSuccess);
  const auto refused = [&](auto change) {
    cuda::RopeAppendParams wrong = rope;
    change(wrong);
    EXPECT_EQ(cuda::fused_decode_attention(attention, wrong, {}), cudaErrorInvalidValue);
  };
  refused([](auto& r) { r.rotary_dim = 24; });
  refused([](auto& r) { r.rotary_dim = 144; });
  refused([](auto& r) { r.qkv_stride = 1544; });
  refused([](auto& r) { r.num_heads = 4; });
  refused([](auto& r) { r.kv.dtype = DType::kFloat16; });
  refused([](auto& r) { r.kv.block_size = 32; });
  refused([](auto& r) { r.activation = DType::kFloat16; });
}

}  // namespace
}  // namespace zonda::kernels
