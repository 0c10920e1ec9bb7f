// Numbers as people type them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zonda::cli {

// "12", "-1", "4k" (4,000), "2K" (2,048), the same for m/M, g/G, t/T; a fraction only with k, m, g,
// t
// ("1.5k"), and only if the result is whole. nullopt otherwise.
std::optional<int64_t> parse_integer(std::string_view text);
// A finite decimal number, the whole text.
std::optional<double> parse_number(std::string_view text);
// "1,2,3", blanks allowed; empty text is an empty list. nullopt if a part is no 32-bit integer.
std::optional<std::vector<int32_t>> parse_ids(std::string_view text);
// "4096 bytes", "3.2 MB", "1.5 GB": powers of 1000.
std::string bytes_text(int64_t bytes);

}  // namespace zonda::cli
