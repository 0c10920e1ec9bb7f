// What the device could still give out, for programs that look for leaks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace zonda::test {

// Bytes; 0 without a device whose memory is its own.
int64_t free_device_memory();

}  // namespace zonda::test
