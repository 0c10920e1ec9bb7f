// SPDX-License-Identifier: Apache-2.0
#include "machine_limits.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "device/buffer.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zonda::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kReadBytes = int64_t{256} << 20;
constexpr int64_t kRounds = 200'000;
constexpr int kChains = 12;

// Best of `passes` runs of body on all threads, in seconds.
template <typename Body>
double best_seconds(device::ThreadPool& pool, int passes, Body&& body) {
  double best = 1e30;
  for (int pass = 0; pass < passes; ++pass) {
    const auto start = Clock::now();
    pool.run(body);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

#if defined(__x86_64__)

// Keeps a value in a vector register and hides where it comes from.
template <typename T>
void hide(T& value) {
  asm volatile("" : "+x"(value));
}

__attribute__((target("avx2,fma"))) void fma_avx2() {
  __m256 acc[kChains];
  __m256 x = _mm256_set1_ps(0.999f);
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) {
    acc[c] = _mm256_setzero_ps();
  }
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      acc[c] = _mm256_fmadd_ps(acc[c], x, x);
      hide(acc[c]);
    }
  }
}

__attribute__((target("avx2"))) void int8_avx2() {
  __m256i acc[kChains];
  __m256i w = _mm256_set1_epi8(3);
  __m256i a = _mm256_set1_epi8(-2);
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) {
    acc[c] = _mm256_setzero_si256();
  }
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      hide(w);
      acc[c] = _mm256_add_epi16(acc[c], _mm256_maddubs_epi16(w, a));
      hide(acc[c]);
    }
  }
}

__attribute__((target("avx512f"))) void fma_avx512() {
  __m512 acc[kChains];
  __m512 x = _mm512_set1_ps(0.999f);
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) {
    acc[c] = _mm512_setzero_ps();
  }
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      acc[c] = _mm512_fmadd_ps(acc[c], x, x);
      asm volatile("" : "+v"(acc[c]));
    }
  }
}

__attribute__((target("avx512f,avx512vnni"))) void int8_avx512() {
  __m512i acc[kChains];
  __m512i w = _mm512_set1_epi32(0x03030303);
  __m512i a = _mm512_set1_epi32(0x01020102);
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) {
    acc[c] = _mm512_setzero_si512();
  }
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      acc[c] = _mm512_dpbusd_epi32(acc[c], w, a);
      asm volatile("" : "+v"(acc[c]));
    }
  }
}

#endif

double rate(device::ThreadPool& pool, void (*loop)(), double ops_per_step) {
  const double seconds = best_seconds(pool, 5, [&](int) { loop(); });
  return ops_per_step * kChains * static_cast<double>(kRounds) * pool.size() / seconds * 1e-9;
}

// Sums `bytes` from several places at once, a cache line of each in turn.
uint64_t read_streams(const std::byte* data, int64_t bytes, int streams) {
  const int64_t words = bytes / streams / 64 * 8;
  uint64_t sums[8] = {};
  for (int64_t at = 0; at < words; at += 8) {
    for (int s = 0; s < streams; ++s) {
      const auto* line = reinterpret_cast<const uint64_t*>(data) + s * words + at;
      for (int i = 0; i < 8; ++i) {
        sums[i] += line[i];
      }
    }
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums) {
    sum += part;
  }
  return sum;
}

}  // namespace

double read_bandwidth(device::ThreadPool& pool, int streams) {
  static Result<device::Buffer> buffer = device::Buffer::allocate(kReadBytes);
  if (!buffer) {
    return 0.0;
  }
  const int64_t share = kReadBytes / pool.size() / 4096 * 4096;
  static bool touched = false;
  if (!touched) {
    std::fill_n(buffer->data(), kReadBytes, std::byte{1});
    touched = true;
  }
  std::vector<uint64_t> sums(static_cast<size_t>(pool.size()) * 8);
  const double seconds = best_seconds(pool, 6, [&](int thread) {
    sums[static_cast<size_t>(thread) * 8] =
        read_streams(buffer->data() + thread * share, share, streams);
  });
  asm volatile("" : : "r"(sums.data()) : "memory");
  return static_cast<double>(share * pool.size()) / seconds * 1e-9;
}

#if defined(__x86_64__)
double fma_peak(device::ThreadPool& pool, device::CpuIsa isa) {
  if (isa >= device::CpuIsa::kAvx512) {
    return rate(pool, fma_avx512, 32.0);
  }
  return isa == device::CpuIsa::kAvx2 ? rate(pool, fma_avx2, 16.0) : 0.0;
}

double int8_peak(device::ThreadPool& pool, device::CpuIsa isa) {
  if (isa >= device::CpuIsa::kAvx512) {
    return rate(pool, int8_avx512, 128.0);
  }
  return isa == device::CpuIsa::kAvx2 ? rate(pool, int8_avx2, 64.0) : 0.0;
}
#else
double fma_peak(device::ThreadPool&, device::CpuIsa) { return 0.0; }
double int8_peak(device::ThreadPool&, device::CpuIsa) { return 0.0; }
#endif

}  // namespace zonda::bench
