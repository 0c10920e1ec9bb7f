// Brings the keys and values of a range from the cache into float32 scratch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "kernels/attention/cpu/attention_range.h"

namespace zonda::kernels {

// How an element of the cache becomes float. kPerFloat elements share the 32 bits of one lane while
// keys are transposed; split() takes them apart afterwards.
template <class V>
struct Float32Element {
  using Stored = float;
  static constexpr int kPerFloat = 1;
  static typename V::F load(const Stored* from) { return V::load(from); }
  static void split(typename V::F lanes, float* to, int /*stride*/) { V::store(to, lanes); }
};

template <class V>
struct BFloat16Element {
  using Stored = uint16_t;
  static constexpr int kPerFloat = 2;
  static typename V::F load(const Stored* from) { return V::load_bf16(from); }
  static void split(typename V::F lanes, float* to, int stride) {
    V::store(to, V::low_bf16(lanes));
    V::store(to + stride, V::high_bf16(lanes));
  }
};

template <class V>
struct Float16Element {
  using Stored = uint16_t;
  static constexpr int kPerFloat = 2;
  static typename V::F load(const Stored* from) { return V::load_f16(from); }
  static void split(typename V::F lanes, float* to, int stride) {
    V::store(to, V::low_f16(lanes));
    V::store(to + stride, V::high_f16(lanes));
  }
};

// Transposes V::kLanes keys by V::kLanes * kPerFloat dimensions: to[d * 16 + key].
template <class V, class Element>
void transpose_keys(const std::byte* const* keys, int64_t byte_offset, int dims, float* to) {
  typename V::F rows[V::kLanes];
  for (int i = 0; i < V::kLanes; ++i) {
    rows[i] = V::load(reinterpret_cast<const float*>(keys[i] + byte_offset));
  }
  V::transpose(rows);
  // Written out in full for whole tiles, so that the rows stay in registers.
  if (dims == V::kLanes * Element::kPerFloat) {
    for (int i = 0; i < V::kLanes; ++i) {
      Element::split(rows[i], to + i * Element::kPerFloat * 16, 16);
    }
    return;
  }
  alignas(64) float tile[V::kLanes * 2 * 16];
  for (int i = 0; i < V::kLanes; ++i) {
    Element::split(rows[i], tile + i * Element::kPerFloat * 16, 16);
  }
  for (int d = 0; d < dims; ++d) {
    std::memcpy(to + d * 16, tile + d * 16, V::kLanes * sizeof(float));
  }
}

inline constexpr int kCacheLine = 64;

// to: TileScratch::keys; whole groups of 16 keys that hold [range.begin, range.end).
template <class V, class Element>
void load_keys(const KeyRange& range, const KeyRange* next, int32_t head_size, float* to) {
  constexpr int kTileDims = V::kLanes * Element::kPerFloat;
  constexpr int kTileBytes = V::kLanes * 4;
  const int whole = head_size / kTileDims * kTileDims;
  const int begin = range.begin / 16 * 16;
  const int end = (range.end + 15) / 16 * 16;
  for (int key = begin; key < end; key += V::kLanes) {
    float* group = to + int64_t{key / 16} * head_size * 16 + key % 16;
    for (int d = 0; d < whole; d += kTileDims) {
      const int64_t offset = int64_t{d} * sizeof(typename Element::Stored);
      if (next != nullptr && offset % kCacheLine == 0) {
        for (int i = 0; i < V::kLanes; ++i) {
          __builtin_prefetch(next->keys[key + i] + offset);
        }
      }
      transpose_keys<V, Element>(range.keys + key, offset, kTileDims, group + d * 16);
    }
    if (whole < head_size) {
      alignas(64) std::byte tails[V::kLanes][kTileBytes] = {};
      const std::byte* rows[V::kLanes];
      const auto bytes = static_cast<size_t>(head_size - whole) * sizeof(typename Element::Stored);
      for (int i = 0; i < V::kLanes; ++i) {
        const auto offset = static_cast<size_t>(whole) * sizeof(typename Element::Stored);
        std::memcpy(tails[i], range.keys[key + i] + offset, bytes);
        rows[i] = tails[i];
      }
      transpose_keys<V, Element>(rows, 0, head_size - whole, group + whole * 16);
    }
  }
}

// to: TileScratch::values; dimensions beyond head_size become zero.
template <class V, class Element>
void load_values(const KeyRange& range, const KeyRange* next, int32_t head_size, float* to) {
  const int whole = head_size / 16 * 16;
  for (int key = range.begin; key < range.end; ++key) {
    const auto* from = reinterpret_cast<const typename Element::Stored*>(range.values[key]);
    float* row = to + key * 16;
    for (int d = 0; d < whole; d += V::kLanes) {
      const int64_t offset = int64_t{d} * sizeof(typename Element::Stored);
      if (next != nullptr && offset % kCacheLine == 0) {
        __builtin_prefetch(next->values[key] + offset);
      }
      V::store(row + d / 16 * 16 * kRangeKeys + d % 16, Element::load(from + d));
    }
    if (whole < head_size) {
      typename Element::Stored tail[16] = {};
      std::memcpy(tail, from + whole,
                  static_cast<size_t>(head_size - whole) * sizeof(typename Element::Stored));
      for (int d = 0; d < 16; d += V::kLanes) {
        V::store(row + whole * kRangeKeys + d, Element::load(tail + d));
      }
    }
  }
}

}  // namespace zonda::kernels
