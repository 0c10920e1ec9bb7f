// Template source to tokens, with jinja's white-space control.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/template_fault.h"

namespace zonda::text::jinja {

struct Token {
  enum class Kind : uint8_t {
    kData,        // text outside of tags
    kPrintBegin,  // {{
    kPrintEnd,    // }}
    kBlockBegin,  // {%
    kBlockEnd,    // %}
    kName,
    kString,  // text: the value, escapes resolved
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  std::string text;
  Position at;

  bool is_name(std::string_view name) const { return kind == Kind::kName && text == name; }
  bool is_operator(std::string_view name) const { return kind == Kind::kOperator && text == name; }
};

// Ends with kEnd. Blocks are trimmed as with trim_blocks and lstrip_blocks; one newline at the end
// of the source is dropped. `source` is valid UTF-8. TemplateFault for what is not a token.
std::vector<Token> tokenize(std::string_view source);

}  // namespace zonda::text::jinja
