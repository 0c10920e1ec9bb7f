// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder.h"

#include <algorithm>
#include <filesystem>

namespace zonda::checkpoint {

namespace fs = std::filesystem;

std::vector<std::string> files_with_ending(const std::string& folder, std::string_view ending) {
  std::vector<std::string> paths;
  std::error_code code;
  fs::directory_iterator entry(folder, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    if (entry->path().filename().string().ends_with(ending)) {
      paths.push_back(entry->path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool file_exists(const std::string& path) {
  std::error_code code;
  return fs::exists(path, code);
}

}  // namespace zonda::checkpoint
