// What `Split` and `Replace` look for: a literal string or a regular expression.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/aligned_text.h"
#include "text/regex.h"

namespace zonda::text {

class Pattern {
 public:
  // {"String": s} or {"Regex": r}; Fault if neither or if r does not compile.
  static Pattern parse(const Json& json, const std::string& where);

  // Appends the matches in `text`, ascending and disjoint, shifted by `base`. An empty literal
  // matches nothing. Fault if the regular expression exceeds its limits.
  void find(std::string_view text, uint32_t base, std::vector<ByteRange>& matches) const;

 private:
  std::string literal_;
  std::shared_ptr<const Regex> regex_;  // null: literal
  bool gpt2_ = false;                   // regex_ is exactly kGpt2Pattern: the scanner is used
};

}  // namespace zonda::text
