// Limits of this machine that kernel benchmarks compare with: read bandwidth and arithmetic peaks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/cpu_features.h"
#include "device/thread_pool.h"

namespace zonda::bench {

// Gigabytes a second that all threads of the pool read together, `streams` sequential streams a
// thread over 256 MB; the best of several passes.
double read_bandwidth(device::ThreadPool& pool, int streams);
// 1e9 float32 multiplies and adds a second of all threads, from registers.
double fma_peak(device::ThreadPool& pool, device::CpuIsa isa);
// 1e9 int8 multiplies and adds a second of all threads: vpdpbusd, or vpmaddubsw with a 16-bit add
// on AVX2. 0 where there is neither.
double int8_peak(device::ThreadPool& pool, device::CpuIsa isa);

}  // namespace zonda::bench
