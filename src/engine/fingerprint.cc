// SPDX-License-Identifier: Apache-2.0
#include "engine/fingerprint.h"

#include <fmt/core.h>

namespace zonda::engine {

std::string device_fingerprint(const device::Stream& stream) {
  return fmt::format("cpu; {}; {}", device::cpu_model_name(), device::cpu_isa_name(stream.isa()));
}

}  // namespace zonda::engine
