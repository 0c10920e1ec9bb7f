// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <cstdlib>

namespace zonda {

std::optional<std::string> env_string(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return std::string(value);
}

std::string cache_folder() {
  if (const auto cache = env_string("XDG_CACHE_HOME")) {
    return *cache + "/zonda";
  }
  if (const auto home = env_string("HOME")) {
    return *home + "/.cache/zonda";
  }
  return {};
}

}  // namespace zonda
