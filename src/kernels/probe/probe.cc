// Runs the probe loops of the best instruction set on all threads and keeps the best times.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/probe/probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "device/buffer.h"
#include "kernels/probe/cpu/probe_kernels.h"

namespace zonda::kernels {
namespace {

constexpr int64_t kReadBytes = int64_t{256}
                               << 20;  // beyond the caches a virtual machine is granted
constexpr std::array<int, 4> kStreams = {1, 2, 4, 8};
constexpr int64_t kSliceGrain = 8 * 4096;  // slices divide into eight streams of whole steps
constexpr int kReadRounds = 2;
constexpr double kPeakSeconds = 0.02;  // of one run
constexpr int kPeakRuns = 4;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void take_present(ProbeKernels& all, const ProbeKernels& better) {
  all.read = better.read != nullptr ? better.read : all.read;
  all.fp32 = better.fp32 != nullptr ? better.fp32 : all.fp32;
  all.int8 = better.int8 != nullptr ? better.int8 : all.int8;
  all.bf16 = better.bf16 != nullptr ? better.bf16 : all.bf16;
}

ProbeKernels choose_kernels(device::CpuIsa isa) {
  using device::CpuIsa;
  ProbeKernels chosen = probe_kernels_portable();
  if (isa >= CpuIsa::kAvx2) {
    take_present(chosen, probe_kernels_avx2());
  }
  if (isa >= CpuIsa::kAvx512) {
    take_present(chosen, probe_kernels_avx512());
  }
  if (isa >= CpuIsa::kAvx512Bf16) {
    take_present(chosen, probe_kernels_avx512bf16());
  }
  if (isa >= CpuIsa::kAmx) {
    take_present(chosen, probe_kernels_amx());
  }
  return chosen;
}

// Seconds of one pass of all threads over the buffer.
double time_read(const ProbeKernels& kernels, const std::byte* data, int streams,
                 device::ThreadPool& pool) {
  const auto start = std::chrono::steady_clock::now();
  pool.parallel_for(kReadBytes, kSliceGrain, [&](int64_t begin, int64_t end) {
    volatile uint64_t keep = kernels.read(data + begin, end - begin, streams);
    (void)keep;
  });
  return seconds_since(start);
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Iterations that keep a thread busy for kPeakSeconds, by its processor time: on a machine with
// other work a short run would seem long.
int64_t peak_iterations(PeakLoop loop) {
  for (int64_t iterations = 1000;; iterations *= 4) {
    const double start = processor_seconds();
    (void)loop(iterations);
    const double seconds = processor_seconds() - start;
    if (seconds > kPeakSeconds / 8) {
      return static_cast<int64_t>(static_cast<double>(iterations) * kPeakSeconds / seconds);
    }
  }
}

// Operations a second of all threads in the best of a few runs.
double measure_peak(PeakLoop loop, device::ThreadPool& pool) {
  const int64_t iterations = peak_iterations(loop);
  double best = 0.0;
  for (int run = 0; run < kPeakRuns; ++run) {
    double operations = 0.0;
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int thread) {
      const double done = loop(iterations);
      if (thread == 0) {
        operations = done * pool.size();
      }
    });
    best = std::max(best, operations / seconds_since(start));
  }
  return best;
}

}  // namespace

double MachineLimits::floor_seconds(double bytes, double operations, double rate) const {
  const double reading = read_bytes_per_s > 0.0 ? bytes / read_bytes_per_s : 0.0;
  const double computing = rate > 0.0 ? operations / rate : 0.0;
  return std::max(reading, computing);
}

Result<MachineLimits> measure_limits(device::Stream& stream) {
  device::ThreadPool& pool = stream.pool();
  const ProbeKernels kernels = choose_kernels(stream.isa());
  MachineLimits limits;
  limits.threads = pool.size();
  {
    Result<device::Buffer> buffer = device::Buffer::allocate(kReadBytes);
    if (!buffer) {
      return buffer.error();
    }
    // Untouched pages may all be one page of zeros.
    pool.parallel_for(kReadBytes, kSliceGrain, [&](int64_t begin, int64_t end) {
      std::fill(buffer->data() + begin, buffer->data() + end, std::byte{1});
    });
    for (int round = 0; round < kReadRounds; ++round) {
      for (const int streams : kStreams) {
        const double seconds = time_read(kernels, buffer->data(), streams, pool);
        const double rate = static_cast<double>(kReadBytes) / seconds;
        if (rate > limits.read_bytes_per_s) {
          limits.read_bytes_per_s = rate;
          limits.streams = streams;
        }
      }
    }
  }
  limits.fp32_flops = measure_peak(kernels.fp32, pool);
  limits.int8_ops = measure_peak(kernels.int8, pool);
  limits.bf16_flops =
      kernels.bf16 == kernels.fp32 ? limits.fp32_flops : measure_peak(kernels.bf16, pool);
  return limits;
}

}  // namespace zonda::kernels
