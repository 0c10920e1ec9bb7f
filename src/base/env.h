// The only place that reads the environment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace zonda {

// The variable's value; nullopt if unset or empty.
std::optional<std::string> env_string(const char* name);

// $XDG_CACHE_HOME/zonda, or ~/.cache/zonda; not created. Empty if neither variable is set.
std::string cache_folder();

}  // namespace zonda
