// The loop nest of every linear: threads split the panels, tokens go in chunks and tiles, k in
// blocks. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "kernels/gemm/cpu/linear_kernel.h"
#include "kernels/gemm/epilogue_math.h"

namespace zonda::kernels {
namespace {

constexpr int64_t kChunkTokens = 512;
// Panels x tokens whose sums a thread keeps, 128 KB; rounding the tokens up to whole tiles at most
// doubles them.
constexpr int64_t kSumVectors = 2048;
constexpr int64_t kMaxTileTokens = 32;
constexpr int64_t kMaxPanels = 8;
constexpr int64_t kSumBytes = 2 * kSumVectors * kPanelRows * 4;
constexpr int64_t kUnpackBytes = 256 * 1024;
// Up to this many values every thread quantises all activations itself, which saves a barrier.
constexpr int64_t kOwnValues = 16 * 1024;
constexpr int64_t kOwnTokens = 8;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Upper bound for every activation kind and tile size.
int64_t activation_bytes(int64_t cols, int64_t tokens) {
  const int64_t room = round_up(tokens + std::min(tokens, kMaxTileTokens), 16);
  return room * (4 * round_up(cols, 128) + 320) + 256;
}

int64_t own_activation_bytes(int64_t cols, int64_t tokens) {
  return activation_bytes(cols, std::min(tokens, kOwnTokens));
}

// Rows of a matrix tile; sums and activations of tile kernels are padded to it.
constexpr int64_t kTileRows = 16;

int64_t token_unit(ActivationKind kind) {
  return kind == ActivationKind::kBf16Tiles || kind == ActivationKind::kByteTiles ? kTileRows : 1;
}

// `tokens` is a multiple of token_unit.
int64_t tile_bytes(ActivationKind kind, const PanelLayout& layout, int64_t tokens) {
  const int count = static_cast<int>(tokens);
  switch (kind) {
    case ActivationKind::kFloat:
      return align64(layout.k * tokens * 4);
    case ActivationKind::kPairs:
    case ActivationKind::kBf16Tiles:
      return align64(layout.k * tokens * 2);
    case ActivationKind::kBytes:
      return integer_tile(layout.k, layout.blocks, count, 1).bytes;
    case ActivationKind::kBytePlanes:
      return integer_tile(layout.k, layout.blocks, count, 2).bytes;
    case ActivationKind::kByteTiles:
      return integer_tile(round_up(layout.k, 64), layout.blocks, count, 1).bytes;
  }
  return 0;
}

// One call of run_linear: sizes that do not depend on the thread.
class LinearRun {
 public:
  LinearRun(const LinearKernel& kernel, const LinearParams& params, int threads)
      : kernel_(kernel), params_(params), threads_(threads), layout_(panel_layout(params.packed)) {
    panel_unit_ = is_gated(params.epilogue) ? 2 : 1;
    const int64_t grain = std::lcm<int64_t>(kernel.panels, panel_unit_);
    token_unit_ = token_unit(kernel.activations);
    chunk_tokens_ = std::min(kChunkTokens, kSumVectors / grain / kMaxTileTokens * kMaxTileTokens);
    const int64_t tokens = round_up(std::min(chunk_tokens_, params.num_tokens), token_unit_);
    set_panels_ = kSumVectors / tokens / grain * grain;
    CHECK(kernel.panels <= kMaxPanels && kernel.tile_tokens <= kMaxTileTokens);
    if (kernel.unpacks) {
      unpacked_ = is_quantized(params.packed.type.format) ? unpacked_int4_layout(params.packed)
                                                          : float_layout();
      panel_scratch_ = unpacked_.header_bytes + blocks_of(kernel.k_block) * unpacked_.block_stride;
      CHECK(panel_scratch_ * kernel.panels <= kUnpackBytes);
    }
    own_ = threads == 1 || (params.num_tokens <= kOwnTokens &&
                            params.num_tokens * params.packed.type.cols <= kOwnValues);
  }

  void run(int thread, device::ThreadPool& pool) {
    const int64_t tokens = params_.num_tokens;
    for (int64_t begin = 0; begin < tokens; begin += chunk_tokens_) {
      Chunk chunk = make_chunk(begin, std::min(chunk_tokens_, tokens - begin), thread);
      if (own_) {
        prepare_tiles(chunk, 0, chunk.tiles);
      } else {
        if (begin > 0) {
          pool.barrier();  // nobody reads the previous chunk any more
        }
        prepare_tiles(chunk, chunk.tiles * thread / threads_,
                      chunk.tiles * (thread + 1) / threads_);
        pool.barrier();
      }
      run_panels(chunk, thread);
    }
  }

 private:
  // Tokens [first, first + count) in tiles of tile_tokens (the last may be smaller).
  struct Chunk {
    int64_t first = 0;
    int64_t count = 0;
    int64_t tile_tokens = 0;
    int64_t tiles = 0;
    int64_t tile_stride = 0;  // bytes
    std::byte* activations = nullptr;
    float* sums = nullptr;          // [tiles][set panels][tile_tokens][16]
    std::byte* unpacked = nullptr;  // [kernel.panels] panels of panel_scratch_
  };

  PanelLayout float_layout() const {
    PackedType as_float = params_.packed;
    as_float.type.format = WeightFormat::kFloat32;
    return panel_layout(as_float);
  }

  int64_t blocks_of(int64_t k) const { return (k + unpacked_.block_k - 1) / unpacked_.block_k; }

  Chunk make_chunk(int64_t first, int64_t count, int thread) const {
    const int64_t cols = params_.packed.type.cols;
    const int64_t shared = own_ && threads_ > 1 ? 0 : activation_bytes(cols, chunk_limit());
    const int64_t own = own_activation_bytes(cols, params_.num_tokens);
    Chunk chunk;
    chunk.first = first;
    chunk.count = count;
    chunk.tiles = (count + kernel_.tile_tokens - 1) / kernel_.tile_tokens;
    chunk.tile_tokens = round_up((count + chunk.tiles - 1) / chunk.tiles, token_unit_);
    chunk.tiles = (count + chunk.tile_tokens - 1) / chunk.tile_tokens;
    chunk.tile_stride = tile_bytes(kernel_.activations, layout_, chunk.tile_tokens);
    chunk.activations = params_.workspace;
    if (own_ && threads_ > 1) {
      chunk.activations += thread * align64(own);
    }
    const int64_t activations =
        std::max(align64(shared), own_ && threads_ > 1 ? threads_ * align64(own) : 0);
    std::byte* mine = params_.workspace + activations + thread * (kSumBytes + kUnpackBytes);
    chunk.sums = reinterpret_cast<float*>(mine);
    chunk.unpacked = mine + kSumBytes;
    return chunk;
  }

  int64_t chunk_limit() const { return std::min(chunk_tokens_, params_.num_tokens); }

  int tokens_of(const Chunk& chunk, int64_t tile) const {
    return static_cast<int>(std::min(chunk.tile_tokens, chunk.count - tile * chunk.tile_tokens));
  }

  // A single token of float activations is already in tile order.
  bool reads_x(const Chunk& chunk) const {
    return chunk.count == 1 && kernel_.activations == ActivationKind::kFloat &&
           params_.packed.type.cols == layout_.k;
  }

  void prepare_tiles(const Chunk& chunk, int64_t begin, int64_t end) const {
    if (reads_x(chunk)) {
      return;
    }
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t token = chunk.first + tile * chunk.tile_tokens;
      kernel_.prepare({.x = params_.x + token * params_.x_stride,
                       .x_stride = params_.x_stride,
                       .cols = params_.packed.type.cols,
                       .tokens = tokens_of(chunk, tile),
                       .layout = &layout_,
                       .out = chunk.activations + tile * chunk.tile_stride});
    }
  }

  void run_panels(const Chunk& chunk, int thread) const {
    const int64_t units = layout_.panels / panel_unit_;
    const int64_t begin = units * thread / threads_ * panel_unit_;
    const int64_t end = units * (thread + 1) / threads_ * panel_unit_;
    if (begin == end) {
      return;
    }
    for (int64_t panel = begin; panel < end; panel += set_panels_) {
      run_set(chunk, panel, std::min(set_panels_, end - panel));
    }
  }

  // A set's sums stay in cache until all of k is done. Its panels are split into kernel.panels
  // contiguous runs that are walked side by side: that many long read streams.
  void run_set(const Chunk& chunk, int64_t first_panel, int64_t panels) const {
    std::fill_n(chunk.sums, chunk.tiles * panels * chunk.tile_tokens * kPanelRows, 0.0f);
    const int64_t runs = kernel_.panels;
    const int64_t run = panels / runs;
    const int64_t k_end = layout_.k;
    for (int64_t k = 0; k < k_end; k += kernel_.k_block) {
      const int64_t next = std::min(k_end, k + kernel_.k_block);
      for (int64_t i = 0; i < run; ++i) {
        accumulate(chunk, {first_panel, panels, i, runs, run}, k, next);
      }
      if (run * runs < panels) {
        accumulate(chunk, {first_panel, panels, run * runs, panels - run * runs, 1}, k, next);
      }
    }
    for (int64_t tile = 0; tile < chunk.tiles; ++tile) {
      kernel_.finish({.params = &params_,
                      .sums = tile_sums(chunk, tile, panels),
                      .sums_stride = chunk.tile_tokens * kPanelRows,
                      .first_panel = first_panel,
                      .panels = static_cast<int>(panels),
                      .first_token = chunk.first + tile * chunk.tile_tokens,
                      .tokens = tokens_of(chunk, tile)});
    }
  }

  static float* tile_sums(const Chunk& chunk, int64_t tile, int64_t panels) {
    return chunk.sums + tile * panels * chunk.tile_tokens * kPanelRows;
  }

  // Of the `set` panels from `first`: `count` panels from `at`, `step` apart.
  struct PanelSpan {
    int64_t first;
    int64_t set;
    int64_t at;
    int64_t count;
    int64_t step;
  };

  void accumulate(const Chunk& chunk, const PanelSpan& span, int64_t k_begin, int64_t k_end) const {
    AccumulateArgs args;
    args.weights = params_.weights + (span.first + span.at) * layout_.panel_bytes;
    args.panel_stride = span.step * layout_.panel_bytes;
    args.layout = &layout_;
    args.k_begin = k_begin;
    args.k_end = k_end;
    args.panels = static_cast<int>(span.count);
    const int64_t panel_sums = chunk.tile_tokens * kPanelRows;
    args.sums_stride = span.step * panel_sums;
    if (kernel_.unpacks) {
      for (int64_t i = 0; i < span.count; ++i) {
        kernel_.unpack({.panel = args.weights + i * args.panel_stride,
                        .from = &layout_,
                        .to = &unpacked_,
                        .k_begin = k_begin,
                        .k_end = k_end,
                        .out = chunk.unpacked + i * panel_scratch_});
      }
      args.weights = chunk.unpacked;
      args.panel_stride = panel_scratch_;
      args.k_origin = k_begin;
      args.layout = &unpacked_;
    }
    for (int64_t tile = 0; tile < chunk.tiles; ++tile) {
      args.activations =
          reads_x(chunk)
              ? reinterpret_cast<const std::byte*>(params_.x + chunk.first * params_.x_stride)
              : chunk.activations + tile * chunk.tile_stride;
      args.tokens = tokens_of(chunk, tile);
      args.sums = tile_sums(chunk, tile, span.set) + span.at * panel_sums;
      kernel_.accumulate(args);
    }
  }

  const LinearKernel& kernel_;
  const LinearParams& params_;
  int threads_;
  PanelLayout layout_;
  PanelLayout unpacked_;
  int64_t panel_scratch_ = 0;
  int64_t panel_unit_ = 1;
  int64_t token_unit_ = 1;
  int64_t set_panels_ = 1;
  int64_t chunk_tokens_ = 0;
  bool own_ = false;
};

}  // namespace

int64_t linear_workspace_bytes(const PackedType& packed, int64_t max_tokens, int threads) {
  const int64_t cols = packed.type.cols;
  const int64_t shared = align64(activation_bytes(cols, std::min(max_tokens, kChunkTokens)));
  const int64_t own = threads * align64(own_activation_bytes(cols, max_tokens));
  return std::max(shared, own) + threads * (kSumBytes + kUnpackBytes);
}

void run_linear(const LinearKernel& kernel, const LinearParams& params, device::Stream& stream) {
  if (params.num_tokens == 0) {
    return;
  }
  device::ThreadPool& pool = stream.pool();
  LinearRun linear(kernel, params, pool.size());
  pool.run([&](int thread) {
    if (kernel.begin != nullptr) {
      kernel.begin();
    }
    linear.run(thread, pool);
    if (kernel.end != nullptr) {
      kernel.end();
    }
  });
}

}  // namespace zonda::kernels
