// Any bytes as an engine file, and as the plan of one: refused, or a plan that check_plan() trusts.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "base/hash.h"
#include "engine/engine_file.h"

namespace {

constexpr size_t kHeaderBytes = 72;
constexpr int64_t kWeightsBytes = 1 << 20;  // of the section that a bare plan is checked against

// Checksums hide the fields behind them: these hold, so that the fields are what is tried.
std::string sealed(std::string file) {
  const auto field = [&](size_t index) {
    uint64_t value;
    std::memcpy(&value, file.data() + 16 + 8 * index, 8);
    return value;
  };
  const auto set = [&](size_t index, uint64_t value) {
    std::memcpy(file.data() + 16 + 8 * index, &value, 8);
  };
  const uint64_t plan_offset = field(3);
  const uint64_t plan_bytes = field(4);
  if (plan_offset <= file.size() && plan_bytes <= file.size() - plan_offset) {
    set(5, zonda::hash64(std::as_bytes(std::span(file).subspan(plan_offset, plan_bytes))));
  }
  set(6, zonda::hash64(std::as_bytes(std::span(file).first(kHeaderBytes - 8))));
  return file;
}

void open_as_file(const std::string& content) {
  const int descriptor = memfd_create("engine", MFD_CLOEXEC);
  if (write(descriptor, content.data(), content.size()) == static_cast<ssize_t>(content.size())) {
    (void)zonda::engine::open_engine_file("/proc/self/fd/" + std::to_string(descriptor), true);
  }
  close(descriptor);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string content(reinterpret_cast<const char*>(data), size);
  if (content.starts_with("ZONDAENG")) {
    open_as_file(content);
    if (size >= kHeaderBytes) {
      open_as_file(sealed(content));
    }
    return 0;
  }
  const auto json = zonda::parse_json(content, "plan");
  if (!json.ok()) {
    return 0;
  }
  if (const auto plan = zonda::engine::plan_from_json(*json); plan.ok()) {
    (void)zonda::engine::check_plan(*plan, kWeightsBytes);
  }
  return 0;
}
