// Which processor work runs on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "zonda/error.h"

namespace zonda::device {

enum class DeviceKind : uint8_t { kCpu, kCuda };

std::string_view device_kind_name(DeviceKind kind);  // "cpu", "cuda"
// kInvalidArgument for another name.
Result<DeviceKind> parse_device_kind(std::string_view name);

}  // namespace zonda::device
