// What an engine file says about itself, without loading it to run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "engine/plan.h"
#include "zonda/error.h"

namespace zonda::runtime {

struct EngineInfo {
  std::string file;
  engine::EnginePlan plan;
  int64_t file_bytes = 0;
  int64_t weight_bytes = 0;
};

// `path`: an engine folder or file. Header and plan are always checked; `verify_weights`: the
// checksum of the weights too.
Result<EngineInfo> read_engine_info(const std::string& path, bool verify_weights = false);

// Bytes of memory this process may still take; 0 if unknown.
int64_t available_memory();

}  // namespace zonda::runtime
