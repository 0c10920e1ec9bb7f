// SPDX-License-Identifier: Apache-2.0
#include "device/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// The number behind `name` in lines of "name: number" or "name number"; none if it is not there.
std::optional<int64_t> field_of(std::string_view lines, std::string_view name) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line.starts_with(name)) {
      std::string_view rest = line.substr(name.size());
      if (rest.starts_with(':') || rest.starts_with(' ')) {
        return leading_integer(rest.substr(1));
      }
    }
  }
  return std::nullopt;
}

// What one control group still allows: its file cache is given back before anybody is killed.
std::optional<int64_t> group_room(const std::string& folder) {
  const auto limit = leading_integer(read_kernel_file((folder + "/memory.max").c_str()));
  const auto used = leading_integer(read_kernel_file((folder + "/memory.current").c_str()));
  if (!limit || !used) {
    return std::nullopt;
  }
  const std::string statistics = read_kernel_file((folder + "/memory.stat").c_str());
  return *limit - *used + field_of(statistics, "inactive_file").value_or(0);
}

// The process's control group (version 2) and all around it; inside a container the path may be
// one of the host, and then only the root is there.
std::vector<std::string> control_groups() {
  constexpr std::string_view kVersion2 = "0::";
  const std::string root = "/sys/fs/cgroup";
  std::vector<std::string> folders = {root};
  const std::string groups = read_kernel_file("/proc/self/cgroup");
  const size_t found = groups.find(kVersion2);
  if (found == std::string::npos) {
    return folders;
  }
  std::string path = groups.substr(found + kVersion2.size());
  path.resize(std::min(path.find('\n'), path.size()));
  for (; path.size() > 1; path.resize(path.rfind('/'))) {
    folders.push_back(root + path);
  }
  return folders;
}

// ulimit -v: addresses count, touched or not.
std::optional<int64_t> address_room() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  const int64_t pages = leading_integer(read_kernel_file("/proc/self/statm")).value_or(0);
  return static_cast<int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE);
}

// With vm.overcommit_memory = 2 the system refuses what it could not back.
std::optional<int64_t> commit_room(std::string_view meminfo) {
  const auto limit = field_of(meminfo, "CommitLimit");
  const auto used = field_of(meminfo, "Committed_AS");
  if (leading_integer(read_kernel_file("/proc/sys/vm/overcommit_memory")) != 2 || !limit || !used) {
    return std::nullopt;
  }
  return (*limit - *used) * 1024;
}

}  // namespace

int64_t available_host_memory() {
  const std::string meminfo = read_kernel_file("/proc/meminfo");
  const auto available = field_of(meminfo, "MemAvailable");
  if (!available) {
    return 0;
  }
  int64_t room = *available * 1024;
  const auto lower = [&room](std::optional<int64_t> limit) {
    room = std::min(room, limit.value_or(room));
  };
  for (const std::string& group : control_groups()) {
    lower(group_room(group));
  }
  lower(address_room());
  lower(commit_room(meminfo));
  return std::max<int64_t>(room, 0);
}

}  // namespace zonda::device
