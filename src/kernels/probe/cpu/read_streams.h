// Reads memory as several sequential streams, with vectors of any width.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// `static`: this header is compiled for several instruction sets in one program.
namespace zonda::kernels {

inline constexpr int64_t kReadStep = 256;  // bytes of a stream before its neighbour's turn

template <typename Vector, int kStreams>
static uint64_t read_streams(const std::byte* data, int64_t bytes) {
  constexpr int64_t kVectors = kReadStep / int64_t{sizeof(Vector)};
  const int64_t stream_bytes = bytes / kStreams;
  Vector sums[4] = {};
  for (int64_t offset = 0; offset < stream_bytes; offset += kReadStep) {
    for (int stream = 0; stream < kStreams; ++stream) {
      const auto* line = reinterpret_cast<const Vector*>(data + stream * stream_bytes + offset);
      for (int64_t i = 0; i < kVectors; ++i) {
        sums[i % 4] ^= line[i];
      }
    }
  }
  const Vector all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(Vector) / sizeof(uint64_t); ++i) {
    value ^= all[i];
  }
  return value;
}

template <typename Vector>
static uint64_t read_any_streams(const std::byte* data, int64_t bytes, int streams) {
  switch (streams) {
    case 1:
      return read_streams<Vector, 1>(data, bytes);
    case 2:
      return read_streams<Vector, 2>(data, bytes);
    case 4:
      return read_streams<Vector, 4>(data, bytes);
    default:
      return read_streams<Vector, 8>(data, bytes);
  }
}

}  // namespace zonda::kernels
