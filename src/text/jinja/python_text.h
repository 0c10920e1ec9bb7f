// Python's notion of characters, for the string methods and filters of templates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/marked_text.h"

namespace zonda::text::jinja {

// str.isspace of one character.
bool is_space(char32_t code);
bool is_cased(char32_t code);

// The text without the characters in `chars` (nullopt: white space) at the chosen sides.
MarkedText strip(const MarkedText& text, std::optional<std::string_view> chars, bool left,
                 bool right);

// Full case mappings, as str.upper and str.lower.
MarkedText to_upper(const MarkedText& text);
MarkedText to_lower(const MarkedText& text);
// First character in upper case, the rest in lower case.
MarkedText capitalize(const MarkedText& text);
// The same for each run of letters.
MarkedText title_case(const MarkedText& text);
MarkedText swap_case(const MarkedText& text);

// Replaces up to `count` occurrences (all if negative); an empty `from` stands before every
// character and at the end.
MarkedText replace(const MarkedText& text, std::string_view from, const MarkedText& to,
                   int64_t count);

// Replaces & < > ' " by HTML entities.
MarkedText escape_html(const MarkedText& text);

}  // namespace zonda::text::jinja
