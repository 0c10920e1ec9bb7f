// The device an engine was timed on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "device/stream.h"

namespace zonda::engine {

// "cpu; AMD EPYC 9B14; avx512-bf16": tactics timed under one text hold for a device with
// the same text.
std::string device_fingerprint(const device::Stream& stream);

}  // namespace zonda::engine
