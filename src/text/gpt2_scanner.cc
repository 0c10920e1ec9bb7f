// Hand-written scanner for the split pattern of GPT-2.
// SPDX-License-Identifier: Apache-2.0
#include "text/gpt2_scanner.h"

#include "text/char_classes.h"
#include "text/utf8.h"

namespace zonda::text {
namespace {

// The three kinds of characters that the pattern tells apart, as masks for CharClasses.
constexpr uint16_t kAll = kLetter | kNumber | kSpace;

// Code point and kind (kLetter, kNumber, kSpace or 0 for all others) at text[pos].
uint16_t kind_at(const CharClasses& classes, std::string_view text, size_t pos, size_t& next) {
  next = pos;
  const auto kind = static_cast<uint16_t>(classes.of(next_code_point(text, next)) & kAll);
  return kind;
}

// Length of 's 't 're 've 'm 'll 'd at text[pos], which is an apostrophe; 0 if none.
size_t contraction_length(std::string_view text, size_t pos) {
  const char first = pos + 1 < text.size() ? text[pos + 1] : '\0';
  if (first == 's' || first == 't' || first == 'm' || first == 'd') {
    return 2;
  }
  const char second = pos + 2 < text.size() ? text[pos + 2] : '\0';
  const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l');
  return two ? 3 : 0;
}

}  // namespace

size_t gpt2_match_end(std::string_view text, size_t pos) {
  const CharClasses& classes = CharClasses::get();
  if (text[pos] == '\'') {
    if (const size_t length = contraction_length(text, pos); length != 0) {
      return pos + length;
    }
  }
  size_t next = 0;
  uint16_t kind = kind_at(classes, text, pos, next);
  if (text[pos] == ' ' && next < text.size()) {
    size_t after = 0;
    const uint16_t second = kind_at(classes, text, next, after);
    if (second != kSpace) {
      kind = second;
      next = after;
    }
  }
  size_t last = pos;  // start of the last character of the run
  while (next < text.size()) {
    size_t after = 0;
    if (kind_at(classes, text, next, after) != kind) {
      break;
    }
    last = next;
    next = after;
  }
  // \s+(?!\S): before a word, the last of several spaces is left to that word.
  return kind == kSpace && next < text.size() && last > pos ? last : next;
}

}  // namespace zonda::text
