// xxHash 64 and 128 (github.com/Cyan4973/xxHash): checksums of files and keys of caches, not for
// security. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace zonda {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0);
Hash128 hash128(std::span<const std::byte> bytes, uint64_t seed = 0);
// 32 lower-case hexadecimal digits.
std::string to_hex(const Hash128& hash);

}  // namespace zonda
