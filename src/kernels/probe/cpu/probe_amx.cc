// Probe loops for AMX tiles, int8 and bfloat16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/probe/cpu/probe_kernels.h"

#ifdef __AMX_TILE__
#include "kernels/gemm/cpu/amx_tiles.h"

namespace zonda::kernels {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;  // of a row

// Eight full tiles of zeros: 0-3 sums, 4-5 left, 6-7 right operands.
void open_tiles() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.set(tile, kTileRows, kTileBytes);
  }
  load_tile_config(config);
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
  zero_tile<4>();
  zero_tile<5>();
  zero_tile<6>();
  zero_tile<7>();
}

double int8_amx(int64_t iterations) {
  open_tiles();
  for (int64_t i = 0; i < iterations; ++i) {
    dot_signed_unsigned<0, 4, 6>();
    dot_signed_unsigned<1, 4, 7>();
    dot_signed_unsigned<2, 5, 6>();
    dot_signed_unsigned<3, 5, 7>();
  }
  release_tiles();
  return static_cast<double>(iterations) * 4 * kTileRows * 16 * kTileBytes * 2;
}

double bf16_amx(int64_t iterations) {
  open_tiles();
  for (int64_t i = 0; i < iterations; ++i) {
    dot_bf16<0, 4, 6>();
    dot_bf16<1, 4, 7>();
    dot_bf16<2, 5, 6>();
    dot_bf16<3, 5, 7>();
  }
  release_tiles();
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
