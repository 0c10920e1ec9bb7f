// SPDX-License-Identifier: Apache-2.0
#include "cli/npy.h"

#include <fmt/core.h>

#include <bit>

#include "base/error.h"
#include "base/file.h"

namespace zonda::cli {

Result<void> write_npy(const std::string& path, std::span<const float> values, int64_t rows,
                       int64_t columns) {
  static_assert(std::endian::native == std::endian::little);
  CHECK(static_cast<int64_t>(values.size()) == rows * columns);
  constexpr size_t kPreamble = 10;   // magic, version, header length
  constexpr size_t kAlignment = 64;  // of the data
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  while ((kPreamble + header.size() + 1) % kAlignment != 0) {
    header += ' ';
  }
  header += '\n';
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\x00';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  file.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return write_file(path, file);
}

}  // namespace zonda::cli
