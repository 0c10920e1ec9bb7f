// Looking into folders without exceptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zonda::checkpoint {

// Paths of the folder's entries whose names end so, sorted; empty if it cannot be read.
std::vector<std::string> files_with_ending(const std::string& folder, std::string_view ending);
bool file_exists(const std::string& path);

}  // namespace zonda::checkpoint
