// Sequences with made-up queries, keys and values in a paged cache on the GPU, and what attention
// must give for them. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "device/cuda/device_array.h"
#include "kernels/attention/attention_scene.h"
#include "kernels/attention/cuda/attention.h"
#include "kernels/rope/cuda/cache_values.h"
#include "kernels/rope/kv_layout.h"

namespace zonda::kernels {

struct DeviceShape {
  int32_t num_heads = 8;
  int32_t num_kv_heads = 2;
  int32_t head_size = 128;
  DType cache = DType::kBFloat16;
  DType activation = DType::kBFloat16;
  int32_t window = 0;
  float soft_cap = 0.0f;
  int32_t block_size = 32;
};

// One output value, a sum of terms weight * v.
struct Expected {
  double value = 0;
  double magnitude = 0;  // sum of |term|
  double squares = 0;    // sum of term^2
};

// Outputs of a token as raw 16-bit values, by (sequence, position).
using TokenBits = std::map<std::pair<int, int32_t>, std::vector<uint16_t>>;

class DeviceScene {
 public:
  // Chunks with count 0 are unused places of a padded batch.
  DeviceScene(const DeviceShape& shape, std::vector<Chunk> chunks, uint32_t seed)
      : shape_(shape), chunks_(std::move(chunks)) {
    place_blocks(seed);
    fill_cache();
    fill_queries();
  }

  enum class Kernel { kDecode, kPrefill };

  // `max_kv_length`: 0: the longest; otherwise an upper bound. `repeats`: calls over one workspace.
  TokenBits run(Kernel kernel, int32_t max_kv_length = 0, int repeats = 1) {
    test::DeviceArray<uint8_t> cache(cache_);
    test::DeviceArray<uint16_t> q(q_);
    test::DeviceArray<uint16_t> out(q_.size());
    test::DeviceArray<int32_t> tables(tables_);
    std::vector<int32_t> begins;
    std::vector<int32_t> counts;
    std::vector<int32_t> starts;
    int32_t token = 0;
    int32_t longest = 0;
    int32_t most_tokens = 0;
    for (const Chunk& chunk : chunks_) {
      begins.push_back(token);
      counts.push_back(chunk.count);
      starts.push_back(chunk.start);
      token += chunk.count;
      longest = std::max(longest, chunk.start + chunk.count);
      most_tokens = std::max(most_tokens, chunk.count);
    }
    test::DeviceArray<int32_t> token_begin(begins);
    test::DeviceArray<int32_t> num_tokens(counts);
    test::DeviceArray<int32_t> start_position(starts);
    const auto sequences = static_cast<int32_t>(chunks_.size());
    test::DeviceArray<uint8_t> workspace(static_cast<size_t>(cuda::attention_workspace_bytes(
        sequences, shape_.num_heads, shape_.num_kv_heads, shape_.head_size)));
    test::DeviceArray<uint32_t> arrivals(
        std::vector<uint32_t>(chunks_.size() * static_cast<size_t>(shape_.num_heads)));
    PagedKv kv = kv_;
    kv.base = cache.data();
    const cuda::AttentionParams params{.q = q.data(),
                                       .out = out.data(),
                                       .token_begin = token_begin.data(),
                                       .num_tokens = num_tokens.data(),
                                       .start_position = start_position.data(),
                                       .block_tables = tables.data(),
                                       .table_stride = table_stride_,
                                       .num_sequences = sequences,
                                       .max_tokens = most_tokens,
                                       .max_kv_length = std::max(longest, max_kv_length),
                                       .kv = kv,
                                       .workspace = reinterpret_cast<std::byte*>(workspace.data()),
                                       .arrivals = arrivals.data(),
                                       .q_stride = stride(),
                                       .out_stride = stride(),
                                       .num_heads = shape_.num_heads,
                                       .scale = scale(),
                                       .window = shape_.window,
                                       .soft_cap = shape_.soft_cap,
                                       .activation = shape_.activation};
    for (int i = 0; i < repeats; ++i) {
      const auto launch =
          kernel == Kernel::kDecode ? cuda::decode_attention : cuda::prefill_attention;
      EXPECT_EQ(launch(params, {.stream = nullptr, .dependent = i % 2 == 1}), cudaSuccess);
    }
    EXPECT_EQ(arrivals.read(), std::vector<uint32_t>(arrivals.size()));
    workspace.read();
    return by_token(out.read());
  }

  // The outputs [num_heads * head_size] of a token; `lost`: `num_lost` keys from it on are ignored.
  std::vector<Expected> expected(const Chunk& chunk, int32_t position, int32_t lost = 0,
                                 int32_t num_lost = 0) const {
    std::vector<Expected> all;
    const int32_t oldest = shape_.window > 0 ? std::max(0, position - shape_.window + 1) : 0;
    for (int32_t head = 0; head < shape_.num_heads; ++head) {
      const int32_t kv_head = head / (shape_.num_heads / shape_.num_kv_heads);
      std::vector<double> q;
      for (int32_t d = 0; d < shape_.head_size; ++d) {
        q.push_back(query(chunk.id, position, head, d));
      }
      std::vector<double> weights;
      for (int32_t key = oldest; key <= position; ++key) {
        const float* k = row(chunk.id, key, 0, kv_head);
        double s = std::inner_product(q.begin(), q.end(), k, 0.0) * scale();
        const double cap = shape_.soft_cap;
        weights.push_back(cap > 0 ? cap * std::tanh(s / cap) : s);
      }
      const double max = *std::max_element(weights.begin(), weights.end());
      double sum = 0;
      for (size_t i = 0; i < weights.size(); ++i) {
        const int32_t key = oldest + static_cast<int32_t>(i);
        const bool counts = key < lost || key >= lost + num_lost;
        weights[i] = counts ? std::exp(weights[i] - max) : 0;
        sum += weights[i];
      }
      std::vector<Expected> out(static_cast<size_t>(shape_.head_size));
      for (size_t i = 0; i < weights.size(); ++i) {
        const float* v = row(chunk.id, oldest + static_cast<int32_t>(i), 1, kv_head);
        for (size_t d = 0; d < out.size(); ++d) {
          const double term = weights[i] / sum * v[d];
          out[d].value += term;
          out[d].magnitude += std::abs(term);
          out[d].squares += term * term;
        }
      }
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }

  // Points the table at a block of NaN for the blocks before `position`.
  void forget_blocks_before(size_t chunk, int32_t position) {
    for (int32_t b = 0; b < position / shape_.block_size; ++b) {
      tables_[chunk * static_cast<size_t>(table_stride_) + static_cast<size_t>(b)] = 0;
    }
  }

  const std::vector<Chunk>& chunks() const { return chunks_; }
  float value(uint16_t bits) const {
    return shape_.activation == DType::kBFloat16 ? bf16_to_float(bits) : f16_to_float(bits);
  }
  // Each weight is rounded to what the tensor cores multiply: an error of up to `unit` of its term,
  // which is at most unit * magnitude in all; as the roundings are independent, it is also beyond
  // 7 * unit * sqrt(squares) with a probability below 2 exp(-49 / 2) (Hoeffding). The sum is not
  // rounded. This stays below what one heavy key or any tile of keys adds. Scores, sums and exp2 in
  // float32: 5e-5. Then the result is rounded to the activation's type.
  double bound(const Expected& e) const {
    const double unit = math() == DType::kBFloat16 ? 0x1p-8 : 0x1p-11;
    const double weights = unit * std::min(e.magnitude, 7 * std::sqrt(e.squares));
    const double error = weights + e.magnitude * 5e-5 + 1e-6;
    return error + test::half_unit(std::abs(e.value) + error, shape_.activation);
  }

 private:
  int64_t width() const { return int64_t{shape_.num_heads} * shape_.head_size; }
  int64_t stride() const { return width() + 8; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_size)); }
  DType math() const {
    return shape_.cache == DType::kBFloat16 ? DType::kBFloat16 : DType::kFloat16;
  }
  float stored(int id, int32_t position, int kind, int32_t kv_head, int32_t d) const {
    return test::rounded(
        made_up(id, position, int64_t{kv_head} * shape_.head_size + d, 10 + kind) * 2.0f,
        shape_.cache);
  }
  // The stored values of a head, [head_size].
  const float* row(int id, int32_t position, int kind, int32_t kv_head) const {
    const int64_t index = (int64_t{position} * 2 + kind) * shape_.num_kv_heads + kv_head;
    return rows_.at(id).data() + index * shape_.head_size;
  }
  float activation(int id, int32_t position, int32_t head, int32_t d) const {
    return test::rounded(made_up(id, position, int64_t{head} * shape_.head_size + d, 1) * 3.0f,
                         shape_.activation);
  }
  float query(int id, int32_t position, int32_t head, int32_t d) const {
    return test::rounded(activation(id, position, head, d), math());
  }

  TokenBits by_token(const std::vector<uint16_t>& out) const {
    TokenBits tokens;
    auto row = out.begin();
    for (const Chunk& chunk : chunks_) {
      for (int32_t i = 0; i < chunk.count; ++i, row += stride()) {
        tokens[{chunk.id, chunk.start + i}] = {row, row + width()};
        EXPECT_TRUE(std::all_of(row + width(), row + stride(),
                                [](uint16_t bits) { return bits == 0xffff; }));
      }
    }
    return tokens;
  }

  // Block 0 belongs to nobody and stays NaN.
  void place_blocks(uint32_t seed) {
    int32_t blocks = 1;
    for (const Chunk& chunk : chunks_) {
      const int32_t own = (chunk.start + chunk.count + shape_.block_size - 1) / shape_.block_size;
      table_stride_ = std::max<int64_t>(table_stride_, own);
      blocks += own;
    }
    table_stride_ += 1;
    std::vector<int32_t> ids(static_cast<size_t>(blocks - 1));
    std::iota(ids.begin(), ids.end(), 1);
    std::mt19937 random(seed);
    std::shuffle(ids.begin(), ids.end(), random);
    tables_.assign(chunks_.size() * static_cast<size_t>(table_stride_), 0);
    size_t next = 0;
    for (size_t c = 0; c < chunks_.size(); ++c) {
      const int32_t keys = chunks_[c].start + chunks_[c].count;
      for (int32_t b = 0; b * shape_.block_size < keys; ++b) {
        tables_[c * static_cast<size_t>(table_stride_) + static_cast<size_t>(b)] = ids[next++];
      }
    }
    kv_ = {.base = nullptr,
           .block_stride =
               int64_t{2} * shape_.num_kv_heads * shape_.block_size * shape_.head_size + 16,
           .block_size = shape_.block_size,
           .num_kv_heads = shape_.num_kv_heads,
           .head_size = shape_.head_size,
           .dtype = shape_.cache};
    cache_.assign(static_cast<size_t>(kv_.block_stride * blocks * dtype_size(shape_.cache)), 0xff);
  }

  void fill_cache() {
    for (size_t c = 0; c < chunks_.size(); ++c) {
      for (int32_t p = 0; p < chunks_[c].start + chunks_[c].count; ++p) {
        const int64_t block = tables_[c * static_cast<size_t>(table_stride_) +
                                      static_cast<size_t>(p / shape_.block_size)];
        const int64_t slot = block * shape_.block_size + p % shape_.block_size;
        for (int kind = 0; kind < 2; ++kind) {
          for (int32_t head = 0; head < shape_.num_kv_heads; ++head) {
            const int64_t at = kv_element_offset(kv_, slot, kind, head);
            for (int32_t d = 0; d < shape_.head_size; ++d) {
              const float value = stored(chunks_[c].id, p, kind, head, d);
              rows_[chunks_[c].id].push_back(value);
              test::put_element(cache_.data(), at + d, value, shape_.cache);
            }
          }
        }
      }
    }
  }

  void fill_queries() {
    int64_t tokens = 0;
    for (const Chunk& chunk : chunks_) {
      tokens += chunk.count;
    }
    q_.assign(static_cast<size_t>(tokens * stride()), 0xffff);
    uint16_t* row = q_.data();
    for (const Chunk& chunk : chunks_) {
      for (int32_t i = 0; i < chunk.count; ++i, row += stride()) {
        for (int32_t head = 0; head < shape_.num_heads; ++head) {
          for (int32_t d = 0; d < shape_.head_size; ++d) {
            test::put_element(reinterpret_cast<uint8_t*>(row), int64_t{head} * shape_.head_size + d,
                              activation(chunk.id, chunk.start + i, head, d), shape_.activation);
          }
        }
      }
    }
  }

  DeviceShape shape_;
  std::vector<Chunk> chunks_;
  std::vector<int32_t> tables_;  // [sequences, table_stride_]
  int64_t table_stride_ = 0;
  std::vector<uint8_t> cache_;
  std::map<int, std::vector<float>> rows_;  // [position, 2, num_kv_heads, head_size] by sequence
  PagedKv kv_;
  std::vector<uint16_t> q_;
};

}  // namespace zonda::kernels
