// The version of this program, as printed and as part of the names of cached steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace zonda::api {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace zonda::api
