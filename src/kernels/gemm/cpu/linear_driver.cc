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
// Panels x tokens whose sums a thread keeps: 128 KB.
constexpr int64_t kSumVectors = 2048;
// A last tile may be up to kMaxTileTokens - 1 tokens short of the room it takes.
constexpr int64_t kMaxTileTokens = 32;
constexpr int64_t kMaxSetPanels = 16;
constexpr int64_t kSumBytes = (kSumVectors + kMaxTileTokens * kMaxSetPanels) * kPanelRows * 4;
constexpr int64_t kUnpackBytes = 256 * 1024;
// Up to this many values every thread quantises all activations itself, which saves a barrier.
constexpr int64_t kOwnValues = 16 * 1024;
constexpr int64_t kOwnTokens = 8;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Upper bound for every activation kind and tile size.
int64_t activation_bytes(int64_t cols, int64_t tokens) {
  const int64_t room = tokens + std::min(tokens, kMaxTileTokens);
  return room * (4 * round_up(cols, 128) + 320) + 256;
}

int64_t own_activation_bytes(int64_t cols, int64_t tokens) {
  return activation_bytes(cols, std::min(tokens, kOwnTokens));
}

int64_t tile_bytes(const LinearKernel& kernel, const PanelLayout& layout, int tokens) {
  if (kernel.activations == ActivationKind::kFloat) {
    return align64(layout.k * tokens * 4);
  }
  const int planes = kernel.activations == ActivationKind::kBytePlanes ? 2 : 1;
  return integer_tile(layout.k, layout.blocks, tokens, planes).bytes;
}

// One call of run_linear: sizes that do not depend on the thread.
class LinearRun {
 public:
  LinearRun(const LinearKernel& kernel, const LinearParams& params, int threads)
      : kernel_(kernel), params_(params), threads_(threads), layout_(panel_layout(params.packed)) {
    const int64_t pair = is_gated(params.epilogue) ? 2 : 1;
    panel_unit_ = pair;
    grain_ = std::lcm<int64_t>(kernel.panels, pair);
    max_set_ = round_up(kernel.set_panels, grain_);
    CHECK(max_set_ <= kMaxSetPanels && kernel.tile_tokens <= kMaxTileTokens);
    chunk_tokens_ = std::min(kChunkTokens, kSumVectors / max_set_);
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
    chunk.tile_tokens = (count + chunk.tiles - 1) / chunk.tiles;
    chunk.tiles = (count + chunk.tile_tokens - 1) / chunk.tile_tokens;
    chunk.tile_stride = tile_bytes(kernel_, layout_, static_cast<int>(chunk.tile_tokens));
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
    // Sets of nearly equal size, so that the last one has enough read streams too.
    const int64_t sets = (end - begin + max_set_ - 1) / max_set_;
    const int64_t set = std::min(max_set_, round_up((end - begin + sets - 1) / sets, grain_));
    for (int64_t panel = begin; panel < end; panel += set) {
      run_set(chunk, panel, std::min(set, end - panel));
    }
  }

  void run_set(const Chunk& chunk, int64_t first_panel, int64_t panels) const {
    std::fill_n(chunk.sums, chunk.tiles * panels * chunk.tile_tokens * kPanelRows, 0.0f);
    const int64_t k_end = layout_.k;
    for (int64_t k = 0; k < k_end; k += kernel_.k_block) {
      const int64_t next = std::min(k + kernel_.k_block, k_end);
      for (int64_t at = 0; at < panels; at += kernel_.panels) {
        const int64_t count = std::min<int64_t>(kernel_.panels, panels - at);
        accumulate(chunk, {first_panel, at, count, panels}, k, next);
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

  // Panels [first + at, first + at + count) of a set of `set` panels.
  struct PanelSpan {
    int64_t first;
    int64_t at;
    int64_t count;
    int64_t set;
  };

  void accumulate(const Chunk& chunk, const PanelSpan& span, int64_t k_begin, int64_t k_end) const {
    AccumulateArgs args;
    args.weights = params_.weights + (span.first + span.at) * layout_.panel_bytes;
    args.panel_stride = layout_.panel_bytes;
    args.layout = &layout_;
    args.k_begin = k_begin;
    args.k_end = k_end;
    args.panels = static_cast<int>(span.count);
    args.sums_stride = chunk.tile_tokens * kPanelRows;
    if (kernel_.unpacks) {
      for (int64_t i = 0; i < span.count; ++i) {
        kernel_.unpack({.panel = args.weights + i * layout_.panel_bytes,
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
      args.sums = tile_sums(chunk, tile, span.set) + span.at * args.sums_stride;
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
  int64_t grain_ = 1;
  int64_t max_set_ = 1;
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
  pool.run([&](int thread) { linear.run(thread, pool); });
}

}  // namespace zonda::kernels
