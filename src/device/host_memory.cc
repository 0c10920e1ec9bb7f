// SPDX-License-Identifier: Apache-2.0
#include "device/host_memory.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace zonda::device {
namespace {

// Kernel files report size 0, so they are read to their end; empty if unreadable.
std::string read_kernel_file(const char* path) {
  std::string content;
  if (std::FILE* file = std::fopen(path, "re")) {
    char chunk[4096];
    while (const size_t count = std::fread(chunk, 1, sizeof(chunk), file)) {
      content.append(chunk, count);
    }
    std::fclose(file);
  }
  return content;
}

std::optional<int64_t> leading_integer(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

int64_t available_host_memory() {
  constexpr std::string_view kField = "MemAvailable:";
  const std::string meminfo = read_kernel_file("/proc/meminfo");
  const size_t found = meminfo.find(kField);
  if (found == std::string::npos) {
    return 0;
  }
  int64_t available =
      leading_integer(std::string_view(meminfo).substr(found + kField.size())).value_or(0) * 1024;
  const auto limit = leading_integer(read_kernel_file("/sys/fs/cgroup/memory.max"));
  const auto used = leading_integer(read_kernel_file("/sys/fs/cgroup/memory.current"));
  if (limit && used) {
    available = std::min(available, std::max<int64_t>(*limit - *used, 0));
  }
  return available;
}

}  // namespace zonda::device
