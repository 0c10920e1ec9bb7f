// Asks an installed NVIDIA driver for its GPUs, without linking to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zonda::cli {

struct Gpu {
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int64_t memory_bytes = 0;
};

struct GpuReport {
  std::string problem;       // why there are none; empty if the driver answered
  std::string driver;        // "550.54.14"; empty if unknown
  std::string cuda_version;  // the newest the driver supports: "12.4"
  std::vector<Gpu> gpus;
};

// Opens libcuda.so.1 for the time of the call.
GpuReport find_gpus();

}  // namespace zonda::cli
