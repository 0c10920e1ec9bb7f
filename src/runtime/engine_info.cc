// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine_info.h"

#include "device/host_memory.h"
#include "engine/engine_file.h"

namespace zonda::runtime {

Result<EngineInfo> read_engine_info(const std::string& path, bool verify_weights) {
  const std::string file = engine::engine_file_path(path);
  Result<engine::EngineFile> opened = engine::open_engine_file(file, verify_weights);
  if (!opened.ok()) {
    return opened.error();
  }
  EngineInfo info;
  info.file = file;
  info.file_bytes = static_cast<int64_t>(opened->file.bytes().size());
  info.weight_bytes = static_cast<int64_t>(opened->weights.size());
  info.plan = std::move(opened->plan);
  return info;
}

int64_t available_memory() { return device::available_host_memory(); }

}  // namespace zonda::runtime
