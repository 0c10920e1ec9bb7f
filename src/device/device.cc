// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include "base/error.h"

namespace zonda::device {

std::string_view device_kind_name(DeviceKind kind) {
  return kind == DeviceKind::kCuda ? "cuda" : "cpu";
}

Result<DeviceKind> parse_device_kind(std::string_view name) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    if (name == device_kind_name(kind)) {
      return kind;
    }
  }
  return invalid_argument("[device] \"{}\" is no kind of device; expected cpu or cuda.", name);
}

}  // namespace zonda::device
