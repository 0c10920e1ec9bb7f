// Sequences with made-up queries, keys and values, laid out in a paged cache in any way a test
// likes. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "device/buffer.h"
#include "kernels/attention/attention.h"
#include "kernels/rope/kv_layout.h"

namespace zonda::kernels {

struct HeadShape {
  int32_t num_heads = 1;
  int32_t num_kv_heads = 1;
  int32_t head_size = 64;
  DType dtype = DType::kFloat32;
  int32_t window = 0;
  float soft_cap = 0.0f;
};

// Tokens [start, start + count) of sequence `id`.
struct Chunk {
  int id = 0;
  int32_t start = 0;
  int32_t count = 1;
};

struct Layout {
  int32_t block_size = 16;
  uint32_t seed = 1;          // of the permutation of block ids
  int64_t block_padding = 0;  // elements between blocks
};

inline constexpr DType kKvTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

// A fixed function of its arguments, about uniform in [-1, 1].
inline float made_up(int id, int64_t position, int64_t element, int salt) {
  uint64_t x = static_cast<uint64_t>(id) * 0x9e3779b97f4a7c15u +
               static_cast<uint64_t>(position) * 0xbf58476d1ce4e5b9u +
               static_cast<uint64_t>(element) * 0x94d049bb133111ebu + static_cast<uint64_t>(salt);
  x ^= x >> 31;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 29;
  return static_cast<float>(static_cast<int64_t>(x >> 40) - (1 << 23)) /
         static_cast<float>(1 << 23);
}

inline HeadShape random_shape(std::mt19937& random) {
  constexpr int32_t kHeadSizes[] = {4, 8, 12, 16, 20, 32, 64, 80, 96, 128, 200};
  constexpr int32_t kGroups[] = {1, 2, 3, 4, 7, 8, 61};
  HeadShape s;
  s.head_size = kHeadSizes[random() % std::size(kHeadSizes)];
  s.num_kv_heads = 1 + static_cast<int32_t>(random() % 3);
  s.num_heads = s.num_kv_heads * kGroups[random() % std::size(kGroups)];
  s.head_size = s.num_heads > 24 ? s.head_size % 64 + 4 : s.head_size;
  s.dtype = kKvTypes[random() % 3];
  s.window = random() % 3 == 0 ? 1 + static_cast<int32_t>(random() % 150) : 0;
  s.soft_cap = random() % 3 == 0 ? 2.0f : 0.0f;
  return s;
}

inline Layout random_layout(std::mt19937& random) {
  constexpr int32_t kBlockSizes[] = {1, 3, 16, 32, 64, 100, 128};
  return {.block_size = kBlockSizes[random() % std::size(kBlockSizes)],
          .seed = static_cast<uint32_t>(random()),
          .block_padding = static_cast<int64_t>(random() % 2 * 24)};
}

inline std::vector<Chunk> random_chunks(std::mt19937& random) {
  std::vector<Chunk> chunks;
  const int count = 1 + static_cast<int>(random() % 4);
  for (int id = 0; id < count; ++id) {
    const auto start = static_cast<int32_t>(random() % 2 * (random() % 200));
    const auto tokens = static_cast<int32_t>(random() % 2 == 0 ? 1 : 1 + random() % 60);
    chunks.push_back({id, start, tokens});
  }
  return chunks;
}

class Scene {
 public:
  Scene(const HeadShape& shape, std::vector<Chunk> chunks, const Layout& layout)
      : shape_(shape), chunks_(std::move(chunks)), layout_(layout) {
    place_blocks();
    fill_cache();
    fill_queries();
  }

  // Keys and values of a position; `kind` 0 is the key.
  static float stored(const HeadShape& shape, int id, int32_t position, int kind, int32_t kv_head,
                      int32_t d) {
    const float value =
        made_up(id, position, int64_t{kv_head} * shape.head_size + d, 10 + kind) * 2.0f;
    switch (shape.dtype) {
      case DType::kFloat16:
        return f16_to_float(float_to_f16(value));
      case DType::kBFloat16:
        return bf16_to_float(float_to_bf16(value));
      default:
        return value;
    }
  }
  static float query(const HeadShape& shape, int id, int32_t position, int32_t head, int32_t d) {
    return made_up(id, position, int64_t{head} * shape.head_size + d, 1) * 3.0f;
  }

  // Overwrites a value in the cache, for all dimensions.
  void set_value(size_t chunk, int32_t position, float value) {
    for (int32_t head = 0; head < shape_.num_kv_heads; ++head) {
      for (int32_t d = 0; d < shape_.head_size; ++d) {
        write(offset(chunk, position, 1, head) + d, value);
      }
    }
  }
  // Makes the table point far outside the cache for the blocks before `position`.
  void forget_blocks_before(size_t chunk, int32_t position) {
    for (int32_t b = 0; b < position / layout_.block_size; ++b) {
      tables_[chunk][static_cast<size_t>(b)] = 1 << 28;
    }
  }

  AttentionParams params(std::vector<float>& out, device::Buffer& workspace, int threads) {
    out.assign(static_cast<size_t>(num_tokens() * out_stride()),
               std::numeric_limits<float>::quiet_NaN());
    const int64_t bytes =
        attention_workspace_bytes(num_tokens(), shape_.num_heads, shape_.head_size, threads);
    workspace = *device::Buffer::allocate(static_cast<size_t>(bytes));
    std::memset(workspace.data(), 0xff, workspace.size());
    rows_.clear();
    int64_t token = 0;
    for (size_t c = 0; c < chunks_.size(); ++c) {
      rows_.push_back({.token_begin = token,
                       .num_tokens = chunks_[c].count,
                       .start_position = chunks_[c].start,
                       .block_table = tables_[c].data()});
      token += chunks_[c].count;
    }
    return {.q = q_.data(),
            .out = out.data(),
            .rows = rows_,
            .kv = kv_,
            .workspace = workspace.data(),
            .q_stride = q_stride(),
            .out_stride = out_stride(),
            .num_heads = shape_.num_heads,
            .scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_size)),
            .window = shape_.window,
            .soft_cap = shape_.soft_cap};
  }

  // Outputs [tokens, num_heads, head_size] of `kernel`, which is called with the parameters.
  template <typename Kernel>
  std::vector<float> run(Kernel&& kernel, int threads) {
    std::vector<float> out;
    device::Buffer workspace;
    kernel(params(out, workspace, threads));
    return compact(out);
  }
  std::vector<float> run(device::Stream& stream) {
    return run([&](const AttentionParams& params) { attention(params, stream); },
               stream.pool().size());
  }
  std::vector<float> run_reference() { return run(attention_reference, 1); }

  int64_t num_tokens() const {
    int64_t tokens = 0;
    for (const Chunk& chunk : chunks_) {
      tokens += chunk.count;
    }
    return tokens;
  }
  int64_t width() const { return int64_t{shape_.num_heads} * shape_.head_size; }
  const std::vector<Chunk>& chunks() const { return chunks_; }

  // Outputs by (sequence, position).
  std::map<std::pair<int, int32_t>, std::vector<float>> by_token(
      const std::vector<float>& out) const {
    std::map<std::pair<int, int32_t>, std::vector<float>> tokens;
    const float* at = out.data();
    for (const Chunk& chunk : chunks_) {
      for (int32_t i = 0; i < chunk.count; ++i, at += width()) {
        tokens[{chunk.id, chunk.start + i}] = std::vector<float>(at, at + width());
      }
    }
    return tokens;
  }

 private:
  int64_t q_stride() const { return width() + 7; }
  int64_t out_stride() const { return width() + 3; }

  // The written elements only; everything else must still be poison.
  std::vector<float> compact(const std::vector<float>& out) const {
    std::vector<float> result;
    for (int64_t t = 0; t < num_tokens(); ++t) {
      const float* row = out.data() + t * out_stride();
      result.insert(result.end(), row, row + width());
      for (int64_t i = width(); i < out_stride(); ++i) {
        if (!std::isnan(row[i])) {
          result.clear();  // written outside of its row: no comparison can succeed
          return result;
        }
      }
    }
    return result;
  }

  void place_blocks() {
    std::vector<int32_t> ids;
    for (const Chunk& chunk : chunks_) {
      const int32_t keys = chunk.start + chunk.count;
      tables_.emplace_back(
          static_cast<size_t>((keys + layout_.block_size - 1) / layout_.block_size));
      ids.resize(ids.size() + tables_.back().size());
    }
    ids.resize(ids.size() + 3);
    std::iota(ids.begin(), ids.end(), 0);
    std::mt19937 random(layout_.seed);
    std::shuffle(ids.begin(), ids.end(), random);
    size_t next = 0;
    for (auto& table : tables_) {
      for (int32_t& block : table) {
        block = ids[next++];
      }
    }
    const int64_t stride =
        int64_t{2} * shape_.num_kv_heads * layout_.block_size * shape_.head_size +
        layout_.block_padding;
    const auto bytes =
        static_cast<size_t>(stride * static_cast<int64_t>(ids.size()) * dtype_size(shape_.dtype));
    cache_.assign(bytes, std::byte{0xff});  // NaN in every dtype
    kv_ = {.base = cache_.data(),
           .block_stride = stride,
           .block_size = layout_.block_size,
           .num_kv_heads = shape_.num_kv_heads,
           .head_size = shape_.head_size,
           .dtype = shape_.dtype};
  }

  int64_t offset(size_t chunk, int32_t position, int kind, int32_t kv_head) const {
    const int64_t block = tables_[chunk][static_cast<size_t>(position / layout_.block_size)];
    return kv_element_offset(kv_, block * layout_.block_size + position % layout_.block_size, kind,
                             kv_head);
  }

  void write(int64_t at, float value) {
    switch (shape_.dtype) {
      case DType::kFloat16:
        static_cast<uint16_t*>(kv_.base)[at] = float_to_f16(value);
        break;
      case DType::kBFloat16:
        static_cast<uint16_t*>(kv_.base)[at] = float_to_bf16(value);
        break;
      default:
        static_cast<float*>(kv_.base)[at] = value;
    }
  }

  void fill_cache() {
    for (size_t c = 0; c < chunks_.size(); ++c) {
      for (int32_t p = 0; p < chunks_[c].start + chunks_[c].count; ++p) {
        for (int kind = 0; kind < 2; ++kind) {
          for (int32_t head = 0; head < shape_.num_kv_heads; ++head) {
            for (int32_t d = 0; d < shape_.head_size; ++d) {
              write(offset(c, p, kind, head) + d, stored(shape_, chunks_[c].id, p, kind, head, d));
            }
          }
        }
      }
    }
  }

  void fill_queries() {
    q_.assign(static_cast<size_t>(num_tokens() * q_stride()),
              std::numeric_limits<float>::quiet_NaN());
    float* at = q_.data();
    for (const Chunk& chunk : chunks_) {
      for (int32_t i = 0; i < chunk.count; ++i, at += q_stride()) {
        for (int64_t e = 0; e < width(); ++e) {
          at[e] =
              query(shape_, chunk.id, chunk.start + i, static_cast<int32_t>(e / shape_.head_size),
                    static_cast<int32_t>(e % shape_.head_size));
        }
      }
    }
  }

  HeadShape shape_;
  std::vector<Chunk> chunks_;
  Layout layout_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::byte> cache_;
  PagedKv kv_;
  std::vector<float> q_;
  std::vector<AttentionRow> rows_;
};

}  // namespace zonda::kernels
