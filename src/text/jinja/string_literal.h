// String literals of the template language.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/template_fault.h"

namespace zonda::text::jinja {

// One behind the closing quote of the literal at source[begin]; npos if it is not closed.
size_t string_literal_end(std::string_view source, size_t begin);

// Resolves Python's escapes. Unknown ones stay as they are written. TemplateFault at `at` for a
// malformed one.
std::string unescape(std::string_view literal, Position at);

}  // namespace zonda::text::jinja
