// Regular expressions in Oniguruma's syntax over UTF-8: what the `Regex` patterns of tokenizer.json
// mean. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "zonda/error.h"

namespace zonda::text {

// Idempotent and thread-safe; Regex::compile calls it.
void initialize_regex_library();

// A compiled pattern; searches may run on many threads at once.
class Regex {
 public:
  // kInvalidArgument with Oniguruma's reason if the pattern does not compile.
  static Result<std::unique_ptr<Regex>> compile(std::string_view pattern);
  ~Regex();

  // Calls visit(begin, end) for each match in order, as Rust's onig::find_iter does: an empty match
  // that touches the previous match is skipped. `text` is valid UTF-8.
  // kCapacity if a match needs more backtracking than the limit (a few steps a byte).
  Result<void> for_each_match(std::string_view text,
                              const std::function<void(size_t, size_t)>& visit) const;

 private:
  struct Compiled;
  explicit Regex(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace zonda::text
