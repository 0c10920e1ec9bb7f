// Splits attention over threads: whole tiles when there are many tokens, ranges of keys when there
// are few; the arithmetic of a row is the same either way.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cpu/attention_driver.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "kernels/attention/cpu/attention_tile.h"

namespace zonda::kernels {
namespace {

// Up to this many tokens in a step may be split by key ranges.
constexpr int64_t kMaxSplitTokens = 4;
// Ranges of one token that are kept apart at a time, summed over the tokens of a split step.
constexpr int32_t kWaveRanges = 64;
// Ranges that make waking the other threads worth it.
constexpr int64_t kMinRangesForThreads = 4;
// Floats of max and sum before a kept row's values; keeps them 64-byte aligned.
constexpr int64_t kRowHeader = 16;

int64_t kept_row_floats(int32_t head_size) { return kRowHeader + padded_head_size(head_size); }

struct Amount {
  int64_t tokens = 0;
  int64_t tiles = 0;
  int64_t ranges = 0;       // of all tiles together
  int32_t most_ranges = 0;  // ranges end of the longest tile
  int32_t first_range = std::numeric_limits<int32_t>::max();
};

Amount amount_of(const AttentionParams& params, const TileShape& shape) {
  Amount amount;
  const int32_t per_token_tile = params.kv.num_kv_heads * shape.head_tiles;
  for (const AttentionRow& row : params.rows) {
    amount.tokens += row.num_tokens;
    for (int32_t t = 0; t < shape.token_tiles(row); ++t) {
      const RangeSpan span = visible_ranges(params, Tile::of(shape, row, t, 0));
      amount.tiles += per_token_tile;
      amount.ranges += int64_t{span.end - span.begin} * per_token_tile;
      amount.most_ranges = std::max(amount.most_ranges, span.end);
      amount.first_range = std::min(amount.first_range, span.begin);
    }
  }
  return amount;
}

// Calls body(tile) for the tiles whose index `take` returns, in a fixed order: within a sequence
// the last tokens first, since they see most keys. take(i) returns the next wanted index >= i.
template <typename Take, typename Body>
void for_taken_tiles(const AttentionParams& params, const TileShape& shape, Take&& take,
                     Body&& body) {
  const int64_t per_token_tile = int64_t{params.kv.num_kv_heads} * shape.head_tiles;
  int64_t wanted = take();
  int64_t first = 0;  // index of the row's first tile
  for (const AttentionRow& row : params.rows) {
    const int32_t token_tiles = shape.token_tiles(row);
    const int64_t end = first + token_tiles * per_token_tile;
    while (wanted < end) {
      const int64_t local = wanted - first;
      const auto token_tile = static_cast<int32_t>(token_tiles - 1 - local / per_token_tile);
      body(Tile::of(shape, row, token_tile, static_cast<int32_t>(local % per_token_tile)));
      wanted = take();
    }
    first = end;
  }
}

void reduce_whole_tile(const AttentionParams& params, const Tile& tile, TileWorker& worker) {
  worker.begin(tile);
  const RangeSpan span = visible_ranges(params, tile);
  for (int32_t range = span.begin; range < span.end; ++range) {
    worker.reduce(range, span.end);
  }
  worker.finish();
}

// Each thread takes the next tile until none is left.
void run_tiles(const AttentionParams& params, const AttentionKernel& kernel, const TileShape& shape,
               bool alone, device::ThreadPool& pool) {
  std::atomic<int64_t> next{0};
  const int64_t scratch = tile_scratch_bytes(params.kv.head_size);
  const auto work = [&](int thread) {
    TileWorker worker(params, kernel, params.workspace + thread * scratch);
    for_taken_tiles(
        params, shape, [&] { return next.fetch_add(1, std::memory_order_relaxed); },
        [&](const Tile& tile) { reduce_whole_tile(params, tile, worker); });
  };
  if (alone) {
    work(0);
  } else {
    pool.run(work);
  }
}

// A step of few tokens: threads reduce ranges on their own and keep each result; after every wave
// of ranges the kept results join the rows' states in order. Where one wave holds all ranges, a
// tile that lies in one thread's share is reduced and finished there.
class SplitRun {
 public:
  SplitRun(const AttentionParams& params, const AttentionKernel& kernel, const TileShape& shape,
           const Amount& amount, device::ThreadPool& pool)
      : params_(params),
        kernel_(kernel),
        shape_(shape),
        amount_(amount),
        pool_(pool),
        wave_(kWaveRanges / static_cast<int32_t>(amount.tokens)),
        one_wave_(amount.most_ranges - amount.first_range <= wave_),
        row_floats_(kept_row_floats(params.kv.head_size)) {
    states_ = reinterpret_cast<float*>(params.workspace +
                                       pool.size() * tile_scratch_bytes(params.kv.head_size));
    kept_ = states_ + kMaxSplitTokens * params.num_heads * row_floats_;
  }

  void run() {
    pool_.run([this](int thread) {
      TileWorker worker(params_, kernel_,
                        params_.workspace + thread * tile_scratch_bytes(params_.kv.head_size));
      for (int32_t begin = amount_.first_range; begin < amount_.most_ranges; begin += wave_) {
        const int32_t end = std::min(begin + wave_, amount_.most_ranges);
        reduce_share(begin, end, thread, worker);
        pool_.barrier();
        join_share(begin, end, thread);
        if (end < amount_.most_ranges) {
          pool_.barrier();
        }
      }
    });
  }

 private:
  RowState row_at(float* rows, int64_t index) const {
    float* at = rows + index * row_floats_;
    return {at, at + 1, at + kRowHeader};
  }
  // The kept result of one range; `row` counts (token of the step, head).
  RowState kept(int64_t row, int32_t range_in_wave) const {
    return row_at(kept_, row * wave_ + range_in_wave);
  }

  // Calls body(tile, tokens of the rows before it) for every tile.
  template <typename Body>
  void for_tiles(Body&& body) const {
    int64_t first_token = 0;
    for (const AttentionRow& row : params_.rows) {
      for (int32_t t = 0; t < shape_.token_tiles(row); ++t) {
        for (int32_t i = 0; i < params_.kv.num_kv_heads * shape_.head_tiles; ++i) {
          body(Tile::of(shape_, row, t, i), first_token);
        }
      }
      first_token += row.num_tokens;
    }
  }

  RangeSpan ranges_in_wave(const Tile& tile, int32_t begin, int32_t end) const {
    const RangeSpan span = visible_ranges(params_, tile);
    return {std::max(span.begin, begin), std::min(span.end, end)};
  }

  // Pairs [begin, end) are a thread's part of all the (tile, range) pairs of a wave.
  struct Share {
    int64_t begin;
    int64_t end;
    bool holds(int64_t first, int64_t count) const {
      return first >= begin && first + count <= end;
    }
  };
  Share share_of(int64_t pairs, int thread) const {
    return {pairs * thread / pool_.size(), pairs * (thread + 1) / pool_.size()};
  }
  int64_t pairs_in_wave(int32_t wave_begin, int32_t wave_end) const {
    int64_t pairs = 0;
    for_tiles([&](const Tile& tile, int64_t) {
      const RangeSpan span = ranges_in_wave(tile, wave_begin, wave_end);
      pairs += std::max(0, span.end - span.begin);
    });
    return pairs;
  }
  // Of a tile whose `count` pairs start at `first`: one thread reduces and finishes it.
  bool in_one_share(int64_t pairs, int64_t first, int64_t count) const {
    bool held = false;
    for (int thread = 0; one_wave_ && !held && thread < pool_.size(); ++thread) {
      held = share_of(pairs, thread).holds(first, count);
    }
    return held;
  }

  void reduce_share(int32_t wave_begin, int32_t wave_end, int thread, TileWorker& worker) {
    const Share share = share_of(pairs_in_wave(wave_begin, wave_end), thread);
    int64_t pair = 0;
    for_tiles([&](const Tile& tile, int64_t first_token) {
      const RangeSpan span = ranges_in_wave(tile, wave_begin, wave_end);
      const int64_t count = std::max(0, span.end - span.begin);
      if (one_wave_ && share.holds(pair, count)) {
        reduce_whole_tile(params_, tile, worker);
        pair += count;
        return;
      }
      for (int32_t range = span.begin; range < span.end; ++range, ++pair) {
        if (share.holds(pair, 1)) {
          worker.begin(tile);
          worker.reduce(range, span.end);
          keep(tile, first_token, range - wave_begin, worker);
        }
      }
    });
  }

  void keep(const Tile& tile, int64_t first_token, int32_t range_in_wave,
            const TileWorker& worker) const {
    const int64_t floats = padded_head_size(params_.kv.head_size);
    for (int32_t token = 0; token < tile.num_tokens; ++token) {
      const int64_t step_token = first_token + tile.token_begin + token;
      for (int32_t head = 0; head < tile.num_heads; ++head) {
        const RowState from = worker.state(token, head);
        const RowState to =
            kept(step_token * params_.num_heads + tile.head_begin + head, range_in_wave);
        *to.max = *from.max;
        *to.sum = *from.sum;
        std::copy(from.out, from.out + floats, to.out);
      }
    }
  }

  // This thread's rows join their ranges of the wave in order; the last wave writes the output.
  void join_share(int32_t wave_begin, int32_t wave_end, int thread) {
    const int64_t pairs = pairs_in_wave(wave_begin, wave_end);
    int64_t pair = 0;
    for_tiles([&](const Tile& tile, int64_t first_token) {
      const RangeSpan span = ranges_in_wave(tile, wave_begin, wave_end);
      const int64_t count = std::max(0, span.end - span.begin);
      const bool finished = in_one_share(pairs, pair, count);
      pair += count;
      for (int32_t row = 0; !finished && row < tile.num_tokens * tile.num_heads; ++row) {
        const int32_t token = tile.token_begin + row / tile.num_heads;
        const int32_t head = tile.head_begin + row % tile.num_heads;
        const int64_t index = (first_token + token) * params_.num_heads + head;
        if (index % pool_.size() == thread) {
          join_row(*tile.row, token, head, index, {wave_begin, wave_end});
        }
      }
    });
  }

  void join_row(const AttentionRow& row, int32_t token, int32_t head, int64_t index,
                RangeSpan wave) {
    const int64_t floats = padded_head_size(params_.kv.head_size);
    const RowState state = row_at(states_, index);
    if (wave.begin == amount_.first_range) {
      *state.max = -std::numeric_limits<float>::infinity();
      *state.sum = 0.0f;
      std::fill(state.out, state.out + floats, 0.0f);
    }
    const VisibleKeys keys = visible_keys(params_, row, token);
    const int32_t begin = std::max(wave.begin, keys.begin / kRangeKeys);
    const int32_t end = std::min(wave.end, (keys.end + kRangeKeys - 1) / kRangeKeys);
    for (int32_t range = begin; range < end; ++range) {
      kernel_.join(state, kept(index, range - wave.begin), floats);
    }
    if (wave.end == amount_.most_ranges) {
      const int32_t size = params_.kv.head_size;
      finish_row(
          state, size,
          params_.out + (row.token_begin + token) * params_.out_stride + int64_t{head} * size);
    }
  }

  const AttentionParams& params_;
  const AttentionKernel& kernel_;
  const TileShape& shape_;
  const Amount& amount_;
  device::ThreadPool& pool_;
  int32_t wave_;  // ranges of a wave
  bool one_wave_;
  int64_t row_floats_;  // of a state or kept result
  float* states_;       // [tokens * num_heads] rows
  float* kept_;         // [tokens * num_heads][wave] rows
};

}  // namespace

int64_t attention_driver_bytes(int32_t num_heads, int32_t head_size, int threads) {
  const int64_t tiles = threads * tile_scratch_bytes(head_size);
  if (threads == 1) {
    return tiles;
  }
  const int64_t rows = (kMaxSplitTokens + kWaveRanges) * num_heads;
  return tiles + rows * kept_row_floats(head_size) * static_cast<int64_t>(sizeof(float));
}

void attention_driver(const AttentionParams& params, const AttentionKernel& kernel,
                      device::ThreadPool& pool) {
  const TileShape shape = TileShape::of(params.num_heads, params.kv.num_kv_heads);
  const Amount amount = amount_of(params, shape);
  const bool alone = pool.size() == 1 || amount.ranges < kMinRangesForThreads;
  const bool few_tokens = amount.tokens <= kMaxSplitTokens;
  if (!alone && few_tokens && amount.ranges > amount.tiles) {
    SplitRun(params, kernel, shape, amount, pool).run();
  } else {
    run_tiles(params, kernel, shape, alone, pool);
  }
}

}  // namespace zonda::kernels
