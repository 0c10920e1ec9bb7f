// Unicode normalization forms with the alignment of every character.
// SPDX-License-Identifier: Apache-2.0
#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "text/normalizer.h"
#include "text/utf8.h"

namespace zonda::text {
namespace {

uint8_t combining_class(char32_t code) {
  return static_cast<uint8_t>(
      utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class);
}

// The characters of `text` decomposed and in canonical order.
std::vector<CharChange> decompose(std::string_view text, bool compatibility) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (compatibility ? UTF8PROC_COMPAT : 0));
  std::vector<CharChange> chars;
  chars.reserve(text.size());
  size_t run = 0;  // start of the pending run of non-starters
  const auto order_run = [&] {
    std::stable_sort(chars.begin() + static_cast<ptrdiff_t>(run), chars.end(),
                     [](const CharChange& a, const CharChange& b) {
                       return combining_class(a.code) < combining_class(b.code);
                     });
  };
  for (size_t pos = 0; pos < text.size();) {
    const auto code = static_cast<utf8proc_int32_t>(next_code_point(text, pos));
    utf8proc_int32_t parts[32];
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(code, parts, std::size(parts), options, &boundary);
    CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(std::size(parts)));
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<char32_t>(parts[i]);
      if (combining_class(part) == 0) {
        order_run();
        chars.push_back({part, i > 0 ? 1 : 0});
        run = chars.size();
      } else {
        chars.push_back({part, i > 0 ? 1 : 0});
      }
    }
  }
  order_run();
  return chars;
}

// The primary composite of two characters, or 0.
char32_t compose_pair(char32_t first, char32_t second) {
  utf8proc_int32_t buffer[2] = {static_cast<utf8proc_int32_t>(first),
                                static_cast<utf8proc_int32_t>(second)};
  const utf8proc_ssize_t length = utf8proc_normalize_utf32(
      buffer, 2, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  return length == 1 ? static_cast<char32_t>(buffer[0]) : 0;
}

// A character that goes into a composite takes its old characters along: those that stood for an
// old character (change <= 0) count as removed after the composite's first.
int32_t absorb(const CharChange& starter, const CharChange& absorbed) {
  return starter.change + absorbed.change - 1;
}

std::vector<CharChange> compose(const std::vector<CharChange>& chars) {
  std::vector<CharChange> out;
  out.reserve(chars.size());
  size_t starter = SIZE_MAX;  // index in out of the last starter
  for (const CharChange& c : chars) {
    const uint8_t current = combining_class(c.code);
    if (starter != SIZE_MAX) {
      const bool adjacent = starter + 1 == out.size();
      const uint8_t last = combining_class(out.back().code);
      const bool blocked = !adjacent && (last == 0 || last >= current);
      const char32_t composite = blocked ? 0 : compose_pair(out[starter].code, c.code);
      if (composite != 0) {
        out[starter] = {composite, absorb(out[starter], c)};
        continue;
      }
    }
    if (current == 0) {
      starter = out.size();
    }
    out.push_back(c);
  }
  return out;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

}  // namespace

void apply_normal_form(NormalForm form, AlignedText& text) {
  if (is_ascii(text.text())) {
    return;
  }
  const bool compatibility = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  std::vector<CharChange> chars = decompose(text.text(), compatibility);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) {
    chars = compose(chars);
  }
  text.transform(chars);
}

}  // namespace zonda::text
