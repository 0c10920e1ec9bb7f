// Hand-written scanner for the split pattern of GPT-2, which `ByteLevel` with use_regex stands for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace zonda::text {

// What the scanner equals, in Oniguruma's syntax.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// End of the match that begins at text[pos]; the matches cover every text without gaps.
// `text` is valid UTF-8, pos < text.size() and on a character boundary.
size_t gpt2_match_end(std::string_view text, size_t pos);

}  // namespace zonda::text
