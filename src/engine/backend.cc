// SPDX-License-Identifier: Apache-2.0
#include "engine/backend.h"

#include "base/error.h"

namespace zonda::engine {

const Backend* find_backend(device::DeviceKind kind) {
  return kind == device::DeviceKind::kCuda ? cuda_backend() : cpu_backend();
}

Result<const Backend*> require_backend(device::DeviceKind kind) {
  const Backend* backend = find_backend(kind);
  if (backend == nullptr) {
    return unsupported("[engine] this zonda was built without the {} backend.",
                       device::device_kind_name(kind));
  }
  return backend;
}

}  // namespace zonda::engine
