// Tiles of query rows: which keys they see, and where those lie.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cpu/attention_tile.h"

#include <algorithm>
#include <limits>

#include "kernels/rope/kv_layout.h"

namespace zonda::kernels {
namespace {

// Tiles up to this many rows wait for memory rather than for arithmetic.
constexpr int32_t kFewRows = 12;

}  // namespace

TileShape TileShape::of(int32_t num_heads, int32_t num_kv_heads) {
  const int32_t group = num_heads / num_kv_heads;
  const int32_t heads = std::min(group, kTileRows);
  return {.group = group,
          .heads = heads,
          .head_tiles = (group + heads - 1) / heads,
          .tokens = kTileRows / heads};
}

Tile Tile::of(const TileShape& shape, const AttentionRow& row, int32_t token_tile, int32_t index) {
  const int32_t kv_head = index / shape.head_tiles;
  const int32_t first_head = index % shape.head_tiles * shape.heads;
  const int32_t token_begin = token_tile * shape.tokens;
  return {.row = &row,
          .token_begin = token_begin,
          .num_tokens = std::min(shape.tokens, row.num_tokens - token_begin),
          .kv_head = kv_head,
          .head_begin = kv_head * shape.group + first_head,
          .num_heads = std::min(shape.heads, shape.group - first_head)};
}

RangeSpan visible_ranges(const AttentionParams& params, const Tile& tile) {
  const int32_t last = tile.token_begin + tile.num_tokens - 1;
  const int32_t begin = visible_keys(params, *tile.row, tile.token_begin).begin;
  const int32_t end = visible_keys(params, *tile.row, last).end;
  return {begin / kRangeKeys, (end + kRangeKeys - 1) / kRangeKeys};
}

namespace {

// Floats of the parts of TileScratch, in its order.
struct ScratchSizes {
  int64_t keys, values, scores, max, sum, out;
};

ScratchSizes scratch_sizes(int32_t head_size) {
  const int64_t padded = padded_head_size(head_size);
  return {padded * kRangeKeys,      padded * kRangeKeys, int64_t{kTileRows} * kRangeKeys,
          int64_t{kPaddedTileRows}, kPaddedTileRows,     kTileRows * padded};
}

}  // namespace

int64_t tile_scratch_bytes(int32_t head_size) {
  const ScratchSizes s = scratch_sizes(head_size);
  return (s.keys + s.values + s.scores + s.max + s.sum + s.out) *
         static_cast<int64_t>(sizeof(float));
}

TileWorker::TileWorker(const AttentionParams& params, const AttentionKernel& kernel,
                       std::byte* scratch)
    : params_(params), kernel_(kernel) {
  const ScratchSizes s = scratch_sizes(params.kv.head_size);
  float* at = reinterpret_cast<float*>(scratch);
  const auto take = [&at](int64_t floats) {
    float* part = at;
    at += floats;
    return part;
  };
  scratch_.keys = take(s.keys);
  scratch_.values = take(s.values);
  scratch_.scores = take(s.scores);
  scratch_.max = take(s.max);
  scratch_.sum = take(s.sum);
  scratch_.out = take(s.out);
}

void TileWorker::begin(const Tile& tile) {
  tile_ = tile;
  located_range_ = -1;
  const int32_t size = params_.kv.head_size;
  const int32_t rows = tile.num_tokens * tile.num_heads;
  for (int32_t i = 0; i < rows; ++i) {
    const int64_t token = tile.row->token_begin + tile.token_begin + i / tile.num_heads;
    const int64_t head = tile.head_begin + i % tile.num_heads;
    q_[i] = params_.q + token * params_.q_stride + head * size;
  }
  std::fill(scratch_.max, scratch_.max + kPaddedTileRows, -std::numeric_limits<float>::infinity());
  std::fill(scratch_.sum, scratch_.sum + kPaddedTileRows, 0.0f);
  std::fill(scratch_.out, scratch_.out + rows * padded_head_size(size), 0.0f);
}

void TileWorker::locate_keys(int32_t range, KeyRange* keys) const {
  const PagedKv& kv = params_.kv;
  const int32_t first = range * kRangeKeys;
  const int32_t last_token = tile_.token_begin + tile_.num_tokens - 1;
  const int32_t begin = std::max(first, visible_keys(params_, *tile_.row, tile_.token_begin).begin);
  const int32_t end =
      std::min(first + kRangeKeys, visible_keys(params_, *tile_.row, last_token).end);
  const int64_t element = dtype_size(kv.dtype);
  const auto* base = static_cast<const std::byte*>(kv.base);
  const int64_t slot_bytes = kv.head_size * element;
  const int64_t value_bytes = int64_t{kv.num_kv_heads} * kv.block_size * slot_bytes;
  for (int32_t position = begin; position < end;) {
    const int32_t offset = position % kv.block_size;
    const int64_t block = tile_.row->block_table[position / kv.block_size];
    const int64_t slot = block * kv.block_size + offset;
    const std::byte* key = base + kv_element_offset(kv, slot, 0, tile_.kv_head) * element;
    const int32_t block_end = std::min(end, position - offset + kv.block_size);
    for (; position < block_end; ++position, key += slot_bytes) {
      keys->keys[position - first] = key;
      keys->values[position - first] = key + value_bytes;
    }
  }
  keys->begin = begin - first;
  keys->end = end - first;
  std::fill(keys->keys, keys->keys + keys->begin, keys->keys[keys->begin]);
  std::fill(keys->values, keys->values + keys->begin, keys->values[keys->begin]);
  std::fill(keys->keys + keys->end, keys->keys + kRangeKeys, keys->keys[keys->end - 1]);
  std::fill(keys->values + keys->end, keys->values + kRangeKeys, keys->values[keys->end - 1]);
}

int TileWorker::fill_runs(int32_t range) {
  const int32_t first = range * kRangeKeys;
  int count = 0;
  for (int32_t token = 0; token < tile_.num_tokens; ++token) {
    const VisibleKeys seen = visible_keys(params_, *tile_.row, tile_.token_begin + token);
    const int begin = std::max(seen.begin - first, 0);
    const int end = std::min(seen.end - first, kRangeKeys);
    if (begin >= end) {
      continue;
    }
    const int row = token * tile_.num_heads;
    RowRun* last = count == 0 ? nullptr : &runs_[count - 1];
    if (last != nullptr && last->key_begin == begin && last->key_end == end) {
      last->num_rows += tile_.num_heads;
    } else {
      runs_[count++] = {row, tile_.num_heads, begin, end};
    }
  }
  return count;
}

void TileWorker::reduce(int32_t range, int32_t end) {
  KeyRange* keys = &located_[range % 2];
  if (located_range_ != range) {
    locate_keys(range, keys);
  }
  const KeyRange* next = nullptr;
  // Few rows are done before memory has answered: ask early.
  if (tile_.num_tokens * tile_.num_heads <= kFewRows && range + 1 < end) {
    locate_keys(range + 1, &located_[(range + 1) % 2]);
    located_range_ = range + 1;
    next = &located_[located_range_ % 2];
  }
  const int count = fill_runs(range);
  kernel_.reduce_range({.range = keys,
                        .next = next,
                        .runs = {runs_, static_cast<size_t>(count)},
                        .q = q_,
                        .scratch = scratch_,
                        .head_size = params_.kv.head_size,
                        .dtype = params_.kv.dtype,
                        .scale = params_.scale,
                        .soft_cap = params_.soft_cap});
}

RowState TileWorker::state(int32_t token, int32_t head) const {
  const int32_t row = token * tile_.num_heads + head;
  return {scratch_.max + row, scratch_.sum + row,
          scratch_.out + row * padded_head_size(params_.kv.head_size)};
}

void TileWorker::finish() const {
  for (int32_t token = 0; token < tile_.num_tokens; ++token) {
    float* out = params_.out +
                 (tile_.row->token_begin + tile_.token_begin + token) * params_.out_stride +
                 int64_t{tile_.head_begin} * params_.kv.head_size;
    for (int32_t head = 0; head < tile_.num_heads; ++head) {
      finish_row(state(token, head), params_.kv.head_size,
                 out + int64_t{head} * params_.kv.head_size);
    }
  }
}

void finish_row(const RowState& state, int32_t head_size, float* out) {
  const float inverse = 1.0f / *state.sum;
  for (int32_t d = 0; d < head_size; ++d) {
    out[d] = state.out[d] * inverse;
  }
}

}  // namespace zonda::kernels
