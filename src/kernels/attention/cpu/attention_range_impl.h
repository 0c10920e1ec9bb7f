// The steps of attention_range.h over a vector type; the files named after instruction sets
// instantiate it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <limits>

#include "kernels/activation/exp.h"
#include "kernels/attention/cpu/attention_loads.h"
#include "kernels/attention/cpu/attention_range.h"
#include "kernels/vector/lanes16.h"
#include "kernels/vector/unroll.h"

namespace zonda::kernels {

// Rows of a register tile.
template <class V>
inline constexpr int kMicroRows = 6;

template <class V>
inline constexpr int kPer16 = 16 / V::kLanes;

// Vectors of a register tile: enough independent fma chains, within the registers there are.
template <class V, int kRows>
inline constexpr int kMicroVecs = V::kLanes == 16 ? 4 : (kRows == 1 ? 8 : (kRows <= 3 ? 4 : 2));

// A register tile of accumulators.
template <class V, int kRows, int kVecs>
struct MicroTile {
  typename V::F acc[kRows][kVecs];

  MicroTile() {
    for_each([this](auto r, auto v) { acc[r][v] = V::set1(0.0f); });
  }

  template <class Body>
  static void for_each(Body&& body) {
    unrolled<kRows>([&](auto r) { unrolled<kVecs>([&](auto v) { body(r, v); }); });
  }

  // acc[r][v] = fma(left[r], right[v], acc[r][v]), holding the shorter side in registers.
  template <class Left, class Right>
  void add_outer_product(Left&& left, Right&& right) {
    if constexpr (kRows < kVecs) {
      typename V::F l[kRows];
      unrolled<kRows>([&](auto r) { l[r] = left(r); });
      unrolled<kVecs>([&](auto v) {
        const auto x = right(v);
        unrolled<kRows>([&](auto r) { acc[r][v] = V::fma(l[r], x, acc[r][v]); });
      });
    } else {
      typename V::F x[kVecs];
      unrolled<kVecs>([&](auto v) { x[v] = right(v); });
      unrolled<kRows>([&](auto r) {
        const auto l = left(r);
        unrolled<kVecs>([&](auto v) { acc[r][v] = V::fma(l, x[v], acc[r][v]); });
      });
    }
  }
};

// Scores of kRows rows and kVecs vectors of keys from `group` on; scores points at key 16 * group.
template <class V, int kRows, int kVecs>
void score_tile(const RangeArgs& args, const float* const* q, int group, float* scores) {
  constexpr int kPer = kPer16<V>;
  const int64_t group_size = int64_t{args.head_size} * 16;
  const float* keys = args.scratch.keys + group * group_size;
  MicroTile<V, kRows, kVecs> tile;
  for (int32_t d = 0; d < args.head_size; ++d) {
    tile.add_outer_product(
        [&](int r) { return V::set1(q[r][d]); },
        [&](int v) {
          return V::load(keys + v / kPer * group_size + d * 16 + v % kPer * V::kLanes);
        });
  }
  tile.for_each(
      [&](auto r, auto v) { V::store(scores + r * kRangeKeys + v * V::kLanes, tile.acc[r][v]); });
}

template <class V, int kRows = kMicroRows<V>>
void score_rows(const RangeArgs& args, const RowRun& run, int row, int rows) {
  if (rows < kRows) {
    if constexpr (kRows > 1) {
      score_rows<V, kRows - 1>(args, run, row, rows);
    }
    return;
  }
  constexpr int kVecs = kMicroVecs<V, kRows>;
  constexpr int kGroups = kVecs / kPer16<V>;
  const float* const* q = args.q + row;
  float* scores = args.scratch.scores + row * kRangeKeys;
  const int end = (run.key_end + 15) / 16;
  int group = run.key_begin / 16;
  for (; group + kGroups <= end; group += kGroups) {
    score_tile<V, kRows, kVecs>(args, q, group, scores + group * 16);
  }
  for (; group < end; ++group) {
    score_tile<V, kRows, kPer16<V>>(args, q, group, scores + group * 16);
  }
}

// Scale, cap and mask of one vector of raw scores at key k.
template <class V>
typename V::F finished_score(const RangeArgs& args, const RowRun& run, typename V::F raw, int k) {
  alignas(64) static constexpr float kIota[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                  8, 9, 10, 11, 12, 13, 14, 15};
  auto s = V::mul(raw, V::set1(args.scale));
  if (args.soft_cap > 0.0f) {
    const auto cap = V::set1(args.soft_cap);
    s = V::mul(fast_tanh<V>(V::div(s, cap)), cap);
  }
  if (k < run.key_begin || k + V::kLanes > run.key_end) {
    const auto hidden = V::set1(-std::numeric_limits<float>::infinity());
    const auto index = V::load(kIota);
    s = V::select(V::less(index, V::set1(static_cast<float>(run.key_begin - k))), hidden, s);
    s = V::select(V::less(index, V::set1(static_cast<float>(run.key_end - k))), s, hidden);
  }
  return s;
}

// Turns a row's scores into p and returns m_r and l_r.
template <class V>
void softmax_row(const RangeArgs& args, const RowRun& run, float* scores, float* max, float* sum) {
  using Lanes = Lanes16<V>;
  const int begin = run.key_begin / 16 * 16;
  const int end = (run.key_end + 15) / 16 * 16;
  Lanes top = Lanes::set1(-std::numeric_limits<float>::infinity());
  for (int k = begin; k < end; k += 16) {
    for (int i = 0; i < Lanes::kRegisters; ++i) {
      const int at = k + i * V::kLanes;
      const auto s = finished_score<V>(args, run, V::load(scores + at), at);
      V::store(scores + at, s);
      top.reg[i] = V::max(s, top.reg[i]);
    }
  }
  *max = top.max();
  const auto range_max = V::set1(*max);
  Lanes total = Lanes::set1(0.0f);
  for (int k = begin; k < end; k += 16) {
    for (int i = 0; i < Lanes::kRegisters; ++i) {
      float* at = scores + k + i * V::kLanes;
      const auto p = fast_exp<V>(V::sub(V::load(at), range_max));
      V::store(at, p);
      total.reg[i] = V::add(total.reg[i], p);
    }
  }
  *sum = total.tree_sum();
}

// The same for a whole range without a cap, with all its scores in registers.
template <class V>
void softmax_whole_row(float scale, float* scores, float* max, float* sum) {
  using Lanes = Lanes16<V>;
  constexpr int kVecs = kRangeKeys / V::kLanes;
  const auto factor = V::set1(scale);
  typename V::F s[kVecs];
  Lanes top = Lanes::set1(-std::numeric_limits<float>::infinity());
  unrolled<kVecs>([&](auto v) {
    s[v] = V::mul(V::load(scores + v * V::kLanes), factor);
    auto& lane = top.reg[v % Lanes::kRegisters];
    lane = V::max(s[v], lane);
  });
  *max = top.max();
  const auto range_max = V::set1(*max);
  Lanes total = Lanes::set1(0.0f);
  unrolled<kVecs>([&](auto v) {
    const auto p = fast_exp<V>(V::sub(s[v], range_max));
    V::store(scores + v * V::kLanes, p);
    auto& lane = total.reg[v % Lanes::kRegisters];
    lane = V::add(lane, p);
  });
  *sum = total.tree_sum();
}

// Factors of the old state (a) and of the range (b), with m and l updated; arrays are padded to
// whole vectors.
template <class V>
void join_sums(int rows, float* max, float* sum, const float* range_max, const float* range_sum,
               float* a, float* b) {
  for (int i = 0; i < rows; i += V::kLanes) {
    const auto old_max = V::load(max + i);
    const auto new_max = V::max(V::load(range_max + i), old_max);
    const auto old_factor = fast_exp<V>(V::sub(old_max, new_max));
    const auto range_factor = fast_exp<V>(V::sub(V::load(range_max + i), new_max));
    const auto added = V::mul(V::load(range_sum + i), range_factor);
    V::store(sum + i, V::fma(V::load(sum + i), old_factor, added));
    V::store(max + i, new_max);
    V::store(a + i, old_factor);
    V::store(b + i, range_factor);
  }
}

// Where a value vector lies: row pointers plus an offset that grows by group_stride every 16
// dimensions.
struct ValueRows {
  const std::byte* const* rows;
  int64_t group_stride;           // elements
  const std::byte* const* ahead;  // rows to ask the caches for meanwhile, or null
};

struct ValueTileArgs {
  ValueRows values;
  const float* p;  // [rows][64]
  const float* a;  // [rows]
  const float* b;  // [rows]
  float* out;      // [rows][out_stride]
  int64_t out_stride;
  int key_begin;
  int key_end;
};

// o of kRows rows and kVecs vectors of dimensions from 16 * group on.
template <class V, class Element, int kRows, int kVecs>
void value_tile(const ValueTileArgs& args, int64_t group) {
  constexpr int kPer = kPer16<V>;
  const int64_t stride = args.values.group_stride;
  MicroTile<V, kRows, kVecs> tile;
  for (int k = args.key_begin; k < args.key_end; ++k) {
    if (args.values.ahead != nullptr) {
      constexpr int kTileBytes =
          kVecs * V::kLanes * static_cast<int>(sizeof(typename Element::Stored));
      const std::byte* line = args.values.ahead[k] + group * 16 * sizeof(typename Element::Stored);
      for (int at = 0; at < kTileBytes; at += kCacheLine) {
        __builtin_prefetch(line + at);
      }
    }
    const auto* from = reinterpret_cast<const typename Element::Stored*>(args.values.rows[k]);
    from += group * stride;
    const float* p = args.p + k;
    tile.add_outer_product(
        [&](int r) { return V::set1(p[r * kRangeKeys]); },
        [&](int v) { return Element::load(from + v / kPer * stride + v % kPer * V::kLanes); });
  }
  float* out = args.out + group * 16;
  tile.for_each([&](auto r, auto v) {
    const auto added = V::mul(tile.acc[r][v], V::set1(args.b[r]));
    float* at = out + r * args.out_stride + v * V::kLanes;
    V::store(at, V::fma(V::load(at), V::set1(args.a[r]), added));
  });
}

template <class V, class Element, int kRows = kMicroRows<V>>
void value_rows(const ValueTileArgs& args, int rows) {
  if (rows < kRows) {
    if constexpr (kRows > 1) {
      value_rows<V, Element, kRows - 1>(args, rows);
    }
    return;
  }
  constexpr int kVecs = kMicroVecs<V, kRows>;
  constexpr int kGroups = kVecs / kPer16<V>;
  const int64_t end = args.out_stride / 16;
  int64_t group = 0;
  for (; group + kGroups <= end; group += kGroups) {
    value_tile<V, Element, kRows, kVecs>(args, group);
  }
  for (; group < end; ++group) {
    value_tile<V, Element, kRows, kPer16<V>>(args, group);
  }
}

// Rows of the micro tile that starts at row i of the run.
template <class V>
int rows_from(const RowRun& run, int i) {
  return run.num_rows - i < kMicroRows<V> ? run.num_rows - i : kMicroRows<V>;
}

// Scores, softmax and values of one run.
template <class V, class Element>
void reduce_run(const RangeArgs& args, const RowRun& run, const ValueRows& values) {
  alignas(64) float max[kPaddedTileRows];
  alignas(64) float sum[kPaddedTileRows];
  alignas(64) float range_max[kPaddedTileRows];
  alignas(64) float range_sum[kPaddedTileRows];
  alignas(64) float a[kPaddedTileRows];
  alignas(64) float b[kPaddedTileRows];
  const TileScratch& scratch = args.scratch;
  const auto padded_bytes = static_cast<size_t>((run.num_rows + 15) / 16 * 16) * sizeof(float);
  std::memset(range_max, 0, padded_bytes);
  std::memset(range_sum, 0, padded_bytes);
  for (int i = 0; i < run.num_rows; i += kMicroRows<V>) {
    score_rows<V>(args, run, run.first_row + i, rows_from<V>(run, i));
  }
  const bool whole = run.key_begin == 0 && run.key_end == kRangeKeys && args.soft_cap <= 0.0f;
  for (int i = 0; i < run.num_rows; ++i) {
    float* scores = scratch.scores + (run.first_row + i) * kRangeKeys;
    if (whole) {
      softmax_whole_row<V>(args.scale, scores, range_max + i, range_sum + i);
    } else {
      softmax_row<V>(args, run, scores, range_max + i, range_sum + i);
    }
  }
  std::memcpy(max, scratch.max + run.first_row, padded_bytes);
  std::memcpy(sum, scratch.sum + run.first_row, padded_bytes);
  join_sums<V>(run.num_rows, max, sum, range_max, range_sum, a, b);
  const auto bytes = static_cast<size_t>(run.num_rows) * sizeof(float);
  std::memcpy(scratch.max + run.first_row, max, bytes);
  std::memcpy(scratch.sum + run.first_row, sum, bytes);
  const int64_t out_stride = padded_head_size(args.head_size);
  for (int i = 0; i < run.num_rows; i += kMicroRows<V>) {
    const int row = run.first_row + i;
    value_rows<V, Element>({.values = values,
                            .p = scratch.scores + row * kRangeKeys,
                            .a = a + i,
                            .b = b + i,
                            .out = scratch.out + row * out_stride,
                            .out_stride = out_stride,
                            .key_begin = run.key_begin,
                            .key_end = run.key_end},
                           rows_from<V>(run, i));
  }
}

// Few rows read the values where they lie; many rows share a float32 copy.
template <class V, class Element>
void reduce_range_of(const RangeArgs& args) {
  load_keys<V, Element>(*args.range, args.next, args.head_size, args.scratch.keys);
  const int rows = args.runs.back().first_row + args.runs.back().num_rows;
  if (rows <= kMicroRows<V> && args.head_size % 16 == 0) {
    const std::byte* const* ahead = args.next == nullptr ? nullptr : args.next->values;
    for (const RowRun& run : args.runs) {
      reduce_run<V, Element>(args, run, {args.range->values, 16, ahead});
    }
    return;
  }
  load_values<V, Element>(*args.range, args.next, args.head_size, args.scratch.values);
  const std::byte* copies[kRangeKeys];
  for (int k = 0; k < kRangeKeys; ++k) {
    copies[k] = reinterpret_cast<const std::byte*>(args.scratch.values + k * 16);
  }
  for (const RowRun& run : args.runs) {
    reduce_run<V, Float32Element<V>>(args, run, {copies, kRangeKeys * 16, nullptr});
  }
}

template <class V>
void reduce_range(const RangeArgs& args) {
  switch (args.dtype) {
    case DType::kFloat16:
      return reduce_range_of<V, Float16Element<V>>(args);
    case DType::kBFloat16:
      return reduce_range_of<V, BFloat16Element<V>>(args);
    default:
      return reduce_range_of<V, Float32Element<V>>(args);
  }
}

template <class V>
void join_row(const RowState& state, const RowState& range, int64_t size) {
  alignas(64) float max[16] = {*state.max};
  alignas(64) float sum[16] = {*state.sum};
  alignas(64) float range_max[16] = {*range.max};
  alignas(64) float range_sum[16] = {*range.sum};
  alignas(64) float a[16];
  alignas(64) float b[16];
  join_sums<V>(1, max, sum, range_max, range_sum, a, b);
  *state.max = max[0];
  *state.sum = sum[0];
  for (int64_t i = 0; i < size; i += V::kLanes) {
    const auto added = V::mul(V::load(range.out + i), V::set1(b[0]));
    V::store(state.out + i, V::fma(V::load(state.out + i), V::set1(a[0]), added));
  }
}

}  // namespace zonda::kernels
