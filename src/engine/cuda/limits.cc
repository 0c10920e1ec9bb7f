// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/limits.h"

#include <algorithm>
#include <limits>

#include "device/cuda/cuda_status.h"
#include "device/cuda/device_memory.h"
#include "engine/cuda/linear_timer.h"
#include "kernels/probe/cuda/read.h"

namespace zonda::engine::cuda {
namespace {

using device::cuda::check;
using device::cuda::DeviceBuffer;

constexpr int64_t kReadBytes = int64_t{2} << 30;
constexpr int kRepeats = 5;
constexpr int64_t kProduct = 8192;

Result<double> read_bandwidth(const device::cuda::Stream& stream) {
  const Result<int64_t> free = device::cuda::available_device_memory();
  if (!free) {
    return free.error();
  }
  const int64_t bytes = std::min(kReadBytes, *free / 4) / 4096 * 4096;
  Result<DeviceBuffer> memory = DeviceBuffer::allocate(static_cast<size_t>(bytes) + 256);
  Result<device::cuda::Event> begin = device::cuda::Event::create(true);
  Result<device::cuda::Event> end = device::cuda::Event::create(true);
  if (!memory || !begin || !end) {
    return !memory ? memory.error() : !begin ? begin.error() : end.error();
  }
  const kernels::PackedType random{{WeightFormat::kBFloat16, bytes / 8192, 4096, 0, false},
                                   kernels::RowOrder::kStacked};
  if (Result<void> filled =
          check(kernels::cuda::random_weights(random, 1, 1.0f, memory->data(), stream.handle()),
                "[limits] random data");
      !filled.ok()) {
    return filled.error();
  }
  auto* sink = reinterpret_cast<uint32_t*>(memory->data() + bytes);
  double best = 0.0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    for (const Result<void>& done :
         {begin->record(stream),
          check(kernels::cuda::read_memory(memory->data(), bytes, sink, stream.site()),
                "[limits] reading memory"),
          end->record(stream), end->synchronize()}) {
      if (!done.ok()) {
        return done.error();
      }
    }
    const Result<float> elapsed = device::cuda::elapsed_ms(*begin, *end);
    if (!elapsed) {
      return elapsed.error();
    }
    best = std::max(best, static_cast<double>(bytes) / (static_cast<double>(*elapsed) * 1e-3));
  }
  return best;
}

Result<double> product_rate(const device::cuda::DeviceProperties& properties,
                            const device::cuda::Stream& stream) {
  LinearSample sample;
  sample.packed = {{WeightFormat::kBFloat16, kProduct, kProduct, 0, false},
                   kernels::RowOrder::kStacked};
  LinearTimer timer(properties, stream);
  int64_t count = 0;
  const Result<TacticTime> best = timer.fastest(sample, kProduct, count);
  if (!best) {
    return best.error();
  }
  return 2.0 * kProduct * kProduct * kProduct / best->seconds;
}

}  // namespace

Result<kernels::MachineLimits> measure_limits(const device::cuda::DeviceProperties& properties,
                                              const device::cuda::Stream& stream) {
  const Result<double> bandwidth = read_bandwidth(stream);
  if (!bandwidth) {
    return bandwidth.error();
  }
  const Result<double> rate = product_rate(properties, stream);
  if (!rate) {
    return rate.error();
  }
  kernels::MachineLimits limits;
  limits.read_bytes_per_s = *bandwidth;
  limits.bf16_flops = limits.fp32_flops = limits.int8_ops = *rate;
  return limits;
}

}  // namespace zonda::engine::cuda
