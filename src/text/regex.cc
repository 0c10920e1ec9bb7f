// Regular expressions in Oniguruma's syntax over UTF-8.
// SPDX-License-Identifier: Apache-2.0
#include "text/regex.h"

#include <oniguruma.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "text/utf8.h"

namespace zonda::text {
namespace {

constexpr size_t kRetriesPerByte = 64;
constexpr size_t kMinRetries = 10'000'000;

const OnigUChar* bytes(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

std::string reason(int code, OnigErrorInfo* info) {
  OnigUChar buffer[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = info == nullptr ? onig_error_code_to_str(buffer, code)
                                     : onig_error_code_to_str(buffer, code, info);
  return {reinterpret_cast<char*>(buffer), static_cast<size_t>(std::max(length, 0))};
}

struct RegionDeleter {
  void operator()(OnigRegion* region) const { onig_region_free(region, 1); }
};
struct MatchParamDeleter {
  void operator()(OnigMatchParam* param) const { onig_free_match_param(param); }
};

}  // namespace

struct Regex::Compiled {
  regex_t* regex = nullptr;
  ~Compiled() { onig_free(regex); }
};

void initialize_regex_library() {
  static const bool done = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    return onig_initialize(encodings, 1) == ONIG_NORMAL;
  }();
  CHECK(done);
}

Regex::Regex(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Regex::~Regex() = default;

Result<std::unique_ptr<Regex>> Regex::compile(std::string_view pattern) {
  initialize_regex_library();
  static std::mutex mutex;  // onig_new touches tables that all patterns share
  const std::lock_guard lock(mutex);
  if (!is_valid_utf8(pattern)) {
    return invalid_argument("[regex] the pattern is not valid UTF-8.");
  }
  auto compiled = std::make_unique<Compiled>();
  OnigErrorInfo info;
  const int code = onig_new(&compiled->regex, bytes(pattern), bytes(pattern) + pattern.size(),
                            ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_ONIGURUMA, &info);
  if (code != ONIG_NORMAL) {
    compiled->regex = nullptr;
    return invalid_argument("[regex] pattern \"{}\": {}.", pattern, reason(code, &info));
  }
  return std::unique_ptr<Regex>(new Regex(std::move(compiled)));
}

Result<void> Regex::for_each_match(std::string_view text,
                                   const std::function<void(size_t, size_t)>& visit) const {
  const std::unique_ptr<OnigRegion, RegionDeleter> region(onig_region_new());
  const std::unique_ptr<OnigMatchParam, MatchParamDeleter> param(onig_new_match_param());
  onig_initialize_match_param(param.get());
  const size_t retries = std::max(kMinRetries, text.size() * kRetriesPerByte);
  onig_set_retry_limit_in_match_of_match_param(param.get(), retries);
  onig_set_retry_limit_in_search_of_match_param(param.get(), retries);

  const OnigUChar* const begin = bytes(text);
  const OnigUChar* const end = begin + text.size();
  size_t pos = 0;
  size_t last_end = std::string_view::npos;
  while (pos <= text.size()) {
    const int found = onig_search_with_param(compiled_->regex, begin, end, begin + pos, end,
                                             region.get(), ONIG_OPTION_NONE, param.get());
    if (found == ONIG_MISMATCH) {
      break;
    }
    if (found < 0) {
      return over_capacity("[regex] search in a text of {} bytes stopped at byte {}: {}.",
                           text.size(), pos, reason(found, nullptr));
    }
    const auto match_begin = static_cast<size_t>(region->beg[0]);
    const auto match_end = static_cast<size_t>(region->end[0]);
    const bool empty = match_begin == match_end;
    if (!empty || match_end != last_end) {
      visit(match_begin, match_end);
      last_end = match_end;
    }
    pos = match_end;
    if (empty) {
      pos += pos < text.size() ? utf8_length(static_cast<unsigned char>(text[pos])) : 1;
    }
  }
  return {};
}

}  // namespace zonda::text
