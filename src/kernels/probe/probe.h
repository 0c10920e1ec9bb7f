// Measured limits of this machine: what "floor time" in plan.txt, doctor, profile and bench means.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.h"
#include "zonda/error.h"

namespace zonda::kernels {

// Rates of all threads of a pool together, best of several short runs.
struct MachineLimits {
  double read_bytes_per_s = 0.0;  // from a buffer that no cache holds, with `streams`
  double fp32_flops = 0.0;        // a multiply-add counts as two
  double int8_ops = 0.0;          // int8 dot products into int32, two for each product
  double bf16_flops = 0.0;  // bfloat16 products into float32; without such instructions fp32_flops
  int streams = 1;          // sequential read streams a thread that gave read_bytes_per_s
  int threads = 1;          // of the pool

  // Lower bound in seconds for work that reads `bytes` and computes `operations` at `rate`.
  double floor_seconds(double bytes, double operations, double rate) const;
};

// Measures with the kernels of stream.isa() on all threads of its pool; about a second in all, and
// 256 MiB of memory meanwhile. kCapacity if that memory is refused.
Result<MachineLimits> measure_limits(device::Stream& stream);

}  // namespace zonda::kernels
