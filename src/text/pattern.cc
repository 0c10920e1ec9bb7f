// What `Split` and `Replace` look for.
// SPDX-License-Identifier: Apache-2.0
#include "text/pattern.h"

#include "base/error.h"
#include "text/fault.h"
#include "text/gpt2_scanner.h"

namespace zonda::text {

Pattern Pattern::parse(const Json& json, const std::string& where) {
  Pattern pattern;
  if (json.is_object() && json.size() == 1 && json.begin()->is_string()) {
    const auto text = json.begin()->get<std::string>();
    if (json.begin().key() == "String") {
      pattern.literal_ = text;
      return pattern;
    }
    if (json.begin().key() == "Regex") {
      pattern.regex_ = value_or_fault(Regex::compile(text));
      pattern.gpt2_ = text == kGpt2Pattern;
      return pattern;
    }
  }
  throw Fault{corrupt("[tokenizer] {}.pattern is neither a String nor a Regex.", where)};
}

void Pattern::find(std::string_view text, uint32_t base, std::vector<ByteRange>& matches) const {
  const auto add = [&](size_t begin, size_t end) {
    matches.push_back({base + static_cast<uint32_t>(begin), base + static_cast<uint32_t>(end)});
  };
  if (gpt2_) {
    for (size_t pos = 0; pos < text.size();) {
      const size_t end = gpt2_match_end(text, pos);
      add(pos, end);
      pos = end;
    }
  } else if (regex_ != nullptr) {
    throw_if_failed(regex_->for_each_match(text, add));
  } else if (!literal_.empty()) {
    for (size_t pos = text.find(literal_); pos != std::string_view::npos;
         pos = text.find(literal_, pos + literal_.size())) {
      add(pos, pos + literal_.size());
    }
  }
}

}  // namespace zonda::text
