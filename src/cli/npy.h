// NumPy's .npy files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "zonda/error.h"

namespace zonda::cli {

// Writes float32 [rows, columns], row-major, in format version 1.0. values.size() is rows *
// columns.
Result<void> write_npy(const std::string& path, std::span<const float> values, int64_t rows,
                       int64_t columns);

}  // namespace zonda::cli
