// The probe's figures are possible, and its loops really read and compute.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/probe/probe.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "kernels/probe/cpu/probe_kernels.h"

namespace zonda::kernels {
namespace {

TEST(Probe, ReadsEveryByteOnceWithAnyNumberOfStreams) {
  constexpr size_t kWords = 8 * 4096;
  alignas(64) static uint64_t data[kWords];
  uint64_t expected = 0;
  for (size_t i = 0; i < kWords; ++i) {
    data[i] = 0x9e3779b97f4a7c15u * (i + 1);
    expected ^= data[i];
  }
  std::vector<ProbeKernels> levels = {probe_kernels_portable()};
  if (device::detect_cpu_isa() >= device::CpuIsa::kAvx2) {
    levels.push_back(probe_kernels_avx2());
  }
  if (device::detect_cpu_isa() >= device::CpuIsa::kAvx512) {
    levels.push_back(probe_kernels_avx512());
  }
  for (const ProbeKernels& level : levels) {
    for (const int streams : {1, 2, 4, 8}) {
      const auto* bytes = reinterpret_cast<const std::byte*>(data);
      EXPECT_EQ(level.read(bytes, sizeof(data), streams), expected) << streams;
    }
  }
}

TEST(Probe, PeakLoopsTakeTimeInProportionToTheirWork) {
  const ProbeKernels level = probe_kernels_portable();
  for (const PeakLoop loop : {level.fp32, level.int8}) {
    EXPECT_EQ(loop(2000), 2 * loop(1000));
    const auto start = std::chrono::steady_clock::now();
    const double operations = loop(1000000);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(operations / seconds.count(), 1e13) << "the loop was optimised away";
  }
}

TEST(Probe, LimitsArePositiveAndFloorIsTheSlowerOfReadingAndComputing) {
  device::ThreadPool pool(2);
  device::Stream stream(pool);
  Result<MachineLimits> limits = measure_limits(stream);
  ASSERT_TRUE(limits.ok());
  EXPECT_GT(limits->read_bytes_per_s, 1e8);
  EXPECT_LT(limits->read_bytes_per_s, 1e13);
  EXPECT_GT(limits->fp32_flops, 1e8);
  EXPECT_GT(limits->int8_ops, 1e8);
  EXPECT_GT(limits->bf16_flops, 1e8);
  EXPECT_EQ(limits->threads, 2);

  MachineLimits fixed;
  fixed.read_bytes_per_s = 10.0;
  EXPECT_DOUBLE_EQ(fixed.floor_seconds(20.0, 4.0, 4.0), 2.0);
  EXPECT_DOUBLE_EQ(fixed.floor_seconds(20.0, 40.0, 4.0), 10.0);
}

}  // namespace
}  // namespace zonda::kernels
