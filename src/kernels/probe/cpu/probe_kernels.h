// What each instruction set supplies to the probe: a reading loop and peak arithmetic loops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace zonda::kernels {

// Runs `iterations` of a loop of independent operations and returns how many operations that was.
using PeakLoop = double (*)(int64_t iterations);

// A null entry: this instruction set has nothing better than the one below it.
struct ProbeKernels {
  // Reads `bytes` (a multiple of 8 streams * 256) from `data` (64-byte aligned) once, as `streams`
  // (1, 2, 4, 8) sequential streams in turn; the value only keeps the loads alive.
  uint64_t (*read)(const std::byte* data, int64_t bytes, int streams) = nullptr;
  PeakLoop fp32 = nullptr;
  PeakLoop int8 = nullptr;
  PeakLoop bf16 = nullptr;
};

ProbeKernels probe_kernels_portable();
// All entries are null when this build lacks the instruction set.
ProbeKernels probe_kernels_avx2();
ProbeKernels probe_kernels_avx512();
ProbeKernels probe_kernels_avx512bf16();
ProbeKernels probe_kernels_amx();

}  // namespace zonda::kernels
