// Probe loops for AMX tiles, int8 and bfloat16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/probe/cpu/probe_kernels.h"

#ifdef __AMX_TILE__
#include "kernels/vector/intrinsics.h"

namespace zonda::kernels {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;  // of a row

// Memory form of ldtilecfg, palette 1.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Eight full tiles of zeros: 0-3 sums, 4-5 left, 6-7 right operands.
void open_tiles() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = kTileBytes;
    config.rows[tile] = kTileRows;
  }
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

double int8_amx(int64_t iterations) {
  open_tiles();
  for (int64_t i = 0; i < iterations; ++i) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(iterations) * 4 * kTileRows * 16 * kTileBytes * 2;
}

double bf16_amx(int64_t iterations) {
  open_tiles();
  for (int64_t i = 0; i < iterations; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(iterations) * 4 * kTileRows * 16 * (kTileBytes / 2) * 2;
}

}  // namespace

ProbeKernels probe_kernels_amx() { return {nullptr, nullptr, int8_amx, bf16_amx}; }

}  // namespace zonda::kernels
#else
namespace zonda::kernels {
ProbeKernels probe_kernels_amx() { return {}; }
}  // namespace zonda::kernels
#endif
