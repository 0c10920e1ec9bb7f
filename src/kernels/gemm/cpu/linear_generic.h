// The algorithm of every vector instruction set, over a class V that wraps its registers.
// SPDX-License-Identifier: Apache-2.0
//
// Included once by each instruction set's file. All of it lies in an anonymous namespace: a copy
// compiled for one instruction set must never be linked into another's file.
//
// V supplies 16 lanes, lane r being row r of a panel:
//   F float lanes: set1 load store add sub mul div fma fnma min max negate select load_half; M:
//   less
//     exponent_from_low_bits (kernels/vector/scalar.h)
//   I int32 lanes: iset1 iadd to_float to_int max_abs horizontal_max horizontal_add store_bytes
//     split_high (q -> round-down((q + 8) / 16)) split_low (the rest, in [-8, 7])
//   W 16 x 4 weight bytes: load_bytes low_nibbles high_nibbles
//   A 4 activation bytes for all lanes: broadcast_bytes
//   Acc sums of dot(): first_dot dot add_acc add_acc_planes (to I). kWide: int32 lanes without a
//   limit; otherwise
//     int16 lanes that hold the products of 32 k if every product is at most 255 * 8 in magnitude
#pragma once

#include <bit>

#include "kernels/gemm/cpu/linear_kernel.h"
#include "kernels/gemm/epilogue_math.h"

namespace zonda::kernels {
namespace {

enum class IntegerKind : uint8_t {
  kNibbles,     // packed int4
  kSmallBytes,  // bytes of at most 15: unpacked int4
  kBytes,       // packed int8
};
enum class FloatKind : uint8_t { kFloat32, kFloat16, kBFloat16 };

// Without 32-bit dot products an activation is split as 16 * high + low, and both parts are
// multiplied with the weight byte: neither sum leaves 16 bits.
template <class V>
constexpr int planes_of(IntegerKind kind) {
  return !V::kWide && kind == IntegerKind::kBytes ? 2 : 1;
}

template <const LinearKernel& kKernel>
void run_kernel(const LinearParams& params, device::Stream& stream) {
  run_linear(kKernel, params, stream);
}

// ---- activations ----

struct QuantizedGroup {
  float scale;
  int32_t sum;
};

// q = round(x * (127 / amax)) for `count` values (a multiple of 16), scale = amax / 127. Groups
// that are zero but for values below 1e-30 become zeros.
template <class V, int kPlanes>
QuantizedGroup quantize_group(const float* x, int64_t count, int8_t* q, int8_t* q_low) {
  auto max_bits = V::iset1(0);
  for (int64_t i = 0; i < count; i += 16) {
    max_bits = V::max_abs(max_bits, V::load(x + i));
  }
  const float amax = std::bit_cast<float>(V::horizontal_max(max_bits));
  const bool is_zero = amax < 1e-30f;
  const auto inverse = V::set1(is_zero ? 0.0f : 127.0f / amax);
  auto sum = V::iset1(0);
  for (int64_t i = 0; i < count; i += 16) {
    const auto rounded = V::to_int(V::mul(V::load(x + i), inverse));
    sum = V::iadd(sum, rounded);
    if constexpr (kPlanes == 1) {
      V::store_bytes(q + i, rounded);
    } else {
      V::store_bytes(q + i, V::split_high(rounded));
      V::store_bytes(q_low + i, V::split_low(rounded));
    }
  }
  return {is_zero ? 0.0f : amax / 127.0f, V::horizontal_add(sum)};
}

constexpr int64_t kMaxGroup = 128;

// The same where only the first `real` values exist and the others are zero.
template <class V, int kPlanes>
QuantizedGroup quantize_padded(const float* x, int64_t real, int64_t count, int8_t* q,
                               int8_t* q_low) {
  if (real >= count) {
    return quantize_group<V, kPlanes>(x, count, q, q_low);
  }
  alignas(64) float padded[kMaxGroup];
  for (int64_t i = 0; i < count; ++i) {
    padded[i] = i < real ? x[i] : 0.0f;
  }
  return quantize_group<V, kPlanes>(padded, count, q, q_low);
}

template <class V, int kPlanes>
void prepare_integer(const TileArgs& args) {
  const PanelLayout& layout = *args.layout;
  const int64_t tokens = args.tokens;
  const IntegerTile tile = integer_tile(layout.k, layout.blocks, args.tokens, kPlanes);
  auto* scales = reinterpret_cast<float*>(args.out + tile.scale_offset);
  auto* offsets = reinterpret_cast<int32_t*>(args.out + tile.offset_offset);
  auto* weight_sums = reinterpret_cast<float*>(args.out + tile.weight_sum_offset);
  alignas(64) int32_t q[kPlanes][kMaxGroup / 4];
  for (int64_t token = 0; token < tokens; ++token) {
    const float* x = args.x + token * args.x_stride;
    for (int64_t block = 0; block < layout.blocks; ++block) {
      const int64_t first = block * layout.block_k;
      const int64_t in_layout = layout.k - first;
      const int64_t count = in_layout < layout.block_k ? in_layout : layout.block_k;
      const QuantizedGroup group = quantize_padded<V, kPlanes>(
          x + first, args.cols - first, count, reinterpret_cast<int8_t*>(q[0]),
          reinterpret_cast<int8_t*>(q[kPlanes - 1]));
      auto* out = reinterpret_cast<int32_t*>(args.out) + (first / 4 * tokens + token) * kPlanes;
      for (int64_t i = 0; i < count / 4; ++i) {
        for (int plane = 0; plane < kPlanes; ++plane) {
          out[i * tokens * kPlanes + plane] = q[plane][i];
        }
      }
      scales[block * tokens + token] = group.scale;
      offsets[block * tokens + token] = -layout.zero_point * group.sum;
      weight_sums[block * tokens + token] = group.scale * static_cast<float>(group.sum);
    }
  }
}

template <class V>
void prepare_float(const TileArgs& args) {
  const int64_t tokens = args.tokens;
  auto* out = reinterpret_cast<float*>(args.out);
  for (int64_t token = 0; token < tokens; ++token) {
    const float* x = args.x + token * args.x_stride;
    for (int64_t k = 0; k < args.layout->k; ++k) {
      out[k * tokens + token] = k < args.cols ? x[k] : 0.0f;
    }
  }
}

// ---- weights ----

template <class V>
void unpack_nibbles(const UnpackArgs& args) {
  const PanelLayout& from = *args.from;
  const PanelLayout& to = *args.to;
  const int64_t first = args.k_begin / from.block_k;
  const int64_t scale_bytes = kPanelRows * (from.has_minimum ? 4 : 2);
  for (int64_t k = args.k_begin; k < args.k_end; k += from.block_k) {
    const int64_t block = k / from.block_k;
    const int64_t count = args.k_end - k < from.block_k ? args.k_end - k : from.block_k;
    const std::byte* in = args.panel + from.header_bytes + block * from.block_stride;
    std::byte* out = args.out + to.header_bytes + (block - first) * to.block_stride;
    if (from.scale_stride != 0 || block == first) {
      __builtin_memcpy(args.out + (block - first) * to.scale_stride,
                       args.panel + block * from.scale_stride, scale_bytes);
    }
    for (int64_t chunk = 0; chunk < count / 8; ++chunk) {
      const auto packed = V::load_bytes(in + chunk * 64);
      V::store_weight_bytes(out + chunk * 128, V::low_nibbles(packed));
      V::store_weight_bytes(out + chunk * 128 + 64, V::high_nibbles(packed));
    }
  }
}

template <class V, FloatKind kKind>
void unpack_float(const UnpackArgs& args) {
  constexpr int64_t kStep = kKind == FloatKind::kBFloat16 ? 2 : 1;
  auto* out = reinterpret_cast<float*>(args.out);
  for (int64_t k = args.k_begin; k < args.k_end; k += kStep) {
    const std::byte* in = args.panel + k * kPanelRows * 2;
    if constexpr (kKind == FloatKind::kBFloat16) {
      V::store(out, V::load_bf16_even(in));
      V::store(out + kPanelRows, V::load_bf16_odd(in));
    } else {
      V::store(out, V::load_half(in));
    }
    out += kStep * kPanelRows;
  }
}

// ---- inner loops: N tokens by P panels ----

// The integer dots of 32 k, of the P panels at w with the N tokens at a, added to sums.
template <class V, IntegerKind kKind, int N, int P>
[[gnu::always_inline]] inline void dot32(const std::byte* const (&w)[P], const std::byte* a,
                                         typename V::I (&sums)[P][N]) {
  constexpr int kPlanes = planes_of<V>(kKind);
  constexpr int64_t kSlice = 4 * N * kPlanes;  // activation bytes of 4 k
  typename V::Acc acc[P][N][kPlanes];
  const auto add_slice = [&](bool first, int p, const typename V::W& bytes, const std::byte* slice)
      __attribute__((always_inline)) {
    for (int n = 0; n < N; ++n) {
      for (int plane = 0; plane < kPlanes; ++plane) {
        const auto values = V::broadcast_bytes(slice + (n * kPlanes + plane) * 4);
        auto& sum = acc[p][n][plane];
        sum = first ? V::first_dot(sums[p][n], bytes, values) : V::dot(sum, bytes, values);
      }
    }
  };
  if constexpr (kKind == IntegerKind::kNibbles) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      for (int p = 0; p < P; ++p) {
        const auto packed = V::load_bytes(w[p] + q * 64);
        add_slice(q == 0, p, V::low_nibbles(packed), a + 2 * q * kSlice);
        add_slice(false, p, V::high_nibbles(packed), a + (2 * q + 1) * kSlice);
      }
    }
  } else {
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) {
      for (int p = 0; p < P; ++p) {
        add_slice(q == 0, p, V::load_bytes(w[p] + q * 64), a + q * kSlice);
      }
    }
  }
  for (int p = 0; p < P; ++p) {
    for (int n = 0; n < N; ++n) {
      if constexpr (kPlanes == 1) {
        sums[p][n] = V::add_acc(sums[p][n], acc[p][n][0]);
      } else {
        sums[p][n] = V::add_acc_planes(sums[p][n], acc[p][n][0], acc[p][n][1]);
      }
    }
  }
}

// float += dot * scales (+ minimum * sum) of one group.
template <class V, int N, int P>
[[gnu::always_inline]] inline void add_group(const AccumulateArgs& args, int64_t block,
                                             int64_t stored_block, const IntegerTile& tile,
                                             const typename V::I (&dots)[P][N],
                                             typename V::F (&sums)[P][N]) {
  const PanelLayout& layout = *args.layout;
  const auto* scales = reinterpret_cast<const float*>(args.activations + tile.scale_offset);
  const auto* weight_sums =
      reinterpret_cast<const float*>(args.activations + tile.weight_sum_offset);
  for (int p = 0; p < P; ++p) {
    const std::byte* at = args.weights + p * args.panel_stride + stored_block * layout.scale_stride;
    const auto weight_scale = V::load_half(at);
    for (int n = 0; n < N; ++n) {
      const auto scale = V::mul(weight_scale, V::set1(scales[block * N + n]));
      sums[p][n] = V::fma(V::to_float(dots[p][n]), scale, sums[p][n]);
    }
    if (layout.has_minimum) {
      const auto minimum = V::load_half(at + kPanelRows * 2);
      for (int n = 0; n < N; ++n) {
        sums[p][n] = V::fma(minimum, V::set1(weight_sums[block * N + n]), sums[p][n]);
      }
    }
  }
}

template <class V, int N, int P>
[[gnu::always_inline]] inline void load_sums(const AccumulateArgs& args,
                                             typename V::F (&sums)[P][N]) {
  for (int p = 0; p < P; ++p) {
    for (int n = 0; n < N; ++n) {
      sums[p][n] = V::load(args.sums + p * args.sums_stride + n * kPanelRows);
    }
  }
}

template <class V, int N, int P>
[[gnu::always_inline]] inline void store_sums(const AccumulateArgs& args,
                                              const typename V::F (&sums)[P][N]) {
  for (int p = 0; p < P; ++p) {
    for (int n = 0; n < N; ++n) {
      V::store(args.sums + p * args.sums_stride + n * kPanelRows, sums[p][n]);
    }
  }
}

template <class V, IntegerKind kKind, int N, int P>
void accumulate_integer(const AccumulateArgs& args) {
  constexpr int kPlanes = planes_of<V>(kKind);
  constexpr int64_t kBlockBytes32 = kKind == IntegerKind::kNibbles ? 256 : 512;
  const PanelLayout& layout = *args.layout;
  const IntegerTile tile = integer_tile(layout.k, layout.blocks, N, kPlanes);
  const auto* offsets = reinterpret_cast<const int32_t*>(args.activations + tile.offset_offset);
  int64_t block = args.k_begin / layout.block_k;
  const int64_t stored_first = args.k_origin / layout.block_k;
  typename V::F sums[P][N];
  load_sums<V, N, P>(args, sums);
  for (int64_t k = args.k_begin; k < args.k_end; k += layout.block_k, ++block) {
    const int64_t stored = block - stored_first;
    const int64_t left = args.k_end - k;
    const int64_t parts = (left < layout.block_k ? left : layout.block_k) / 32;
    typename V::I dots[P][N];
    for (int n = 0; n < N; ++n) {
      dots[0][n] = V::iset1(offsets[block * N + n]);
      for (int p = 1; p < P; ++p) {
        dots[p][n] = dots[0][n];
      }
    }
    const std::byte* w[P];
    for (int p = 0; p < P; ++p) {
      w[p] =
          args.weights + p * args.panel_stride + layout.header_bytes + stored * layout.block_stride;
    }
    const std::byte* a = args.activations + k * N * kPlanes;
    for (int64_t part = 0; part < parts; ++part) {
      dot32<V, kKind, N, P>(w, a, dots);
      for (int p = 0; p < P; ++p) {
        w[p] += kBlockBytes32;
      }
      a += 32 * N * kPlanes;
    }
    add_group<V, N, P>(args, block, stored, tile, dots, sums);
  }
  store_sums<V, N, P>(args, sums);
}

// The same with the panels in turns of one group: P read streams where the registers hold the dots
// of a single panel; the float sums of the others wait in the first-level cache.
template <class V, IntegerKind kKind, int N, int P>
void accumulate_integer_in_turns(const AccumulateArgs& args) {
  constexpr int kPlanes = planes_of<V>(kKind);
  constexpr int64_t kBlockBytes32 = kKind == IntegerKind::kNibbles ? 256 : 512;
  const PanelLayout& layout = *args.layout;
  const IntegerTile tile = integer_tile(layout.k, layout.blocks, N, kPlanes);
  const auto* offsets = reinterpret_cast<const int32_t*>(args.activations + tile.offset_offset);
  int64_t block = args.k_begin / layout.block_k;
  const int64_t stored_first = args.k_origin / layout.block_k;
  typename V::F sums[P][N];
  load_sums<V, N, P>(args, sums);
  for (int64_t k = args.k_begin; k < args.k_end; k += layout.block_k, ++block) {
    const int64_t stored = block - stored_first;
    const int64_t left = args.k_end - k;
    const int64_t parts = (left < layout.block_k ? left : layout.block_k) / 32;
    const std::byte* a = args.activations + k * N * kPlanes;
    AccumulateArgs one = args;
#pragma GCC unroll 1
    for (int p = 0; p < P; ++p) {
      typename V::I dots[1][N];
      for (int n = 0; n < N; ++n) {
        dots[0][n] = V::iset1(offsets[block * N + n]);
      }
      const std::byte* w[1] = {one.weights + layout.header_bytes + stored * layout.block_stride};
      for (int64_t part = 0; part < parts; ++part) {
        dot32<V, kKind, N, 1>(w, a + part * 32 * N * kPlanes, dots);
        w[0] += kBlockBytes32;
      }
      typename V::F sum[1][N];
      for (int n = 0; n < N; ++n) {
        sum[0][n] = sums[p][n];
      }
      add_group<V, N, 1>(one, block, stored, tile, dots, sum);
      for (int n = 0; n < N; ++n) {
        sums[p][n] = sum[0][n];
      }
      one.weights += args.panel_stride;
    }
  }
  store_sums<V, N, P>(args, sums);
}

template <class V, FloatKind kKind, int N, int P>
void accumulate_float(const AccumulateArgs& args) {
  constexpr int64_t kStep = kKind == FloatKind::kBFloat16 ? 2 : 1;
  constexpr int64_t kElement = kKind == FloatKind::kFloat32 ? 4 : 2;
  const auto* x = reinterpret_cast<const float*>(args.activations) + args.k_begin * N;
  const std::byte* w = args.weights + (args.k_begin - args.k_origin) * kPanelRows * kElement;
  typename V::F sums[P][N];
  load_sums<V, N, P>(args, sums);
  for (int64_t k = args.k_begin; k < args.k_end; k += kStep) {
    typename V::F even[P];
    [[maybe_unused]] typename V::F odd[P];
    for (int p = 0; p < P; ++p) {
      const std::byte* at = w + p * args.panel_stride;
      if constexpr (kKind == FloatKind::kFloat32) {
        even[p] = V::load(reinterpret_cast<const float*>(at));
      } else if constexpr (kKind == FloatKind::kFloat16) {
        even[p] = V::load_half(at);
      } else {
        even[p] = V::load_bf16_even(at);
        odd[p] = V::load_bf16_odd(at);
      }
    }
    for (int n = 0; n < N; ++n) {
      const auto value = V::set1(x[n]);
      for (int p = 0; p < P; ++p) {
        sums[p][n] = V::fma(even[p], value, sums[p][n]);
      }
    }
    if constexpr (kKind == FloatKind::kBFloat16) {
      for (int n = 0; n < N; ++n) {
        const auto value = V::set1(x[N + n]);
        for (int p = 0; p < P; ++p) {
          sums[p][n] = V::fma(odd[p], value, sums[p][n]);
        }
      }
    }
    x += kStep * N;
    w += kStep * kPanelRows * kElement;
  }
  store_sums<V, N, P>(args, sums);
}

// ---- choice of the template by tokens and panels ----

// Loop<N, P>::run accumulates N tokens by P panels; Loop<N, P>::kMaxPanels limits P for N tokens.
template <template <int, int> class Loop, int N, int P>
void accumulate_panels(const AccumulateArgs& args) {
  AccumulateArgs now = args;
  for (; now.panels >= P; now.panels -= P) {
    Loop<N, P>::run(now);
    now.weights += P * now.panel_stride;
    now.sums += P * now.sums_stride;
  }
  if constexpr (P > 1) {
    if (now.panels > 0) {
      accumulate_panels<Loop, N, P / 2>(now);
    }
  }
}

template <template <int, int> class Loop, int N>
void accumulate_tokens(const AccumulateArgs& args) {
  if constexpr (N > 0) {
    if (args.tokens == N) {
      accumulate_panels<Loop, N, Loop<N, 1>::kMaxPanels>(args);
    } else {
      accumulate_tokens<Loop, N - 1>(args);
    }
  }
}

// ---- epilogue ----

// One panel's finished values of one token, bias included.
template <class V>
typename V::F finished(const FinishArgs& args, int panel, int token, const PanelRows& rows) {
  const auto value = V::load(args.sums + panel * args.sums_stride + int64_t{token} * kPanelRows);
  const float* bias = args.params->bias;
  if (bias == nullptr) {
    return value;
  }
  return V::add(value, V::load_first(bias + rows.first, static_cast<int>(rows.count)));
}

template <class V>
void finish(const FinishArgs& args) {
  const LinearParams& params = *args.params;
  const bool gated = is_gated(params.epilogue);
  for (int panel = 0; panel < args.panels; panel += gated ? 2 : 1) {
    const PanelRows rows = panel_rows(params.packed, args.first_panel + panel);
    const PanelRows next = gated ? panel_rows(params.packed, args.first_panel + panel + 1) : rows;
    const int count = static_cast<int>(rows.count);
    for (int token = 0; token < args.tokens; ++token) {
      const int64_t at = (args.first_token + token) * params.y_stride + rows.first;
      auto value = finished<V>(args, panel, token, rows);
      if (gated) {
        value = gated_value<V>(params.epilogue, value, finished<V>(args, panel + 1, token, next));
      } else if (params.epilogue == Epilogue::kAddResidual) {
        value = V::add(V::load_first(params.residual + at, count), value);
      }
      V::store_first(params.y + at, value, count);
    }
  }
}

}  // namespace
}  // namespace zonda::kernels
