// Python's notion of characters.
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/python_text.h"

#include <utf8proc.h>

#include "text/char_classes.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

// Start of the character that ends at `end`; end > 0.
size_t character_before(std::string_view text, size_t end) {
  do {
    --end;
  } while (end > 0 && is_utf8_continuation(text[end]));
  return end;
}

char32_t simple(utf8proc_int32_t (*map)(utf8proc_int32_t), char32_t code) {
  return static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(code)));
}

std::u32string upper(char32_t code) {
  if (code == U'\u00df') {
    return U"SS";
  }
  return {simple(utf8proc_toupper, code)};
}

std::u32string title(char32_t code) {
  if (code == U'\u00df') {
    return U"Ss";
  }
  return {simple(utf8proc_totitle, code)};
}

std::u32string lower(char32_t code) {
  if (code == U'\u0130') {
    return U"i\u0307";
  }
  return {simple(utf8proc_tolower, code)};
}

// A capital sigma at the end of a word has a lower case of its own.
std::u32string lower_at(std::string_view text, size_t begin, size_t end) {
  size_t pos = begin;
  const char32_t code = next_code_point(text, pos);
  if (code != U'\u03a3') {
    return lower(code);
  }
  size_t before = begin == 0 ? 0 : character_before(text, begin);
  const bool after_letter = begin > 0 && is_cased(next_code_point(text, before));
  const bool before_letter = end < text.size() && is_cased(next_code_point(text, end));
  return after_letter && !before_letter ? U"\u03c2" : U"\u03c3";
}

// Builds a text from change(begin, end) of each character of `text`.
template <typename Change>
MarkedText map_characters(const MarkedText& text, Change change) {
  MarkedText out;
  out.markup = text.markup;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    pos += utf8_length(static_cast<unsigned char>(text.bytes()[pos]));
    out.append(to_utf8(change(begin, pos)), text.from_template(begin));
  }
  return out;
}

char32_t code_at(const MarkedText& text, size_t pos) { return next_code_point(text.bytes(), pos); }

}  // namespace

bool is_space(char32_t code) {
  return CharClasses::get().is(code, kSpace) || (code >= 0x1c && code <= 0x1f);
}

bool is_cased(char32_t code) { return CharClasses::get().is(code, kUpper | kLower); }

MarkedText strip(const MarkedText& text, std::optional<std::string_view> chars, bool left,
                 bool right) {
  const std::string_view bytes = text.bytes();
  const auto goes = [&](size_t begin, size_t end) {
    size_t pos = begin;
    return chars.has_value()
               ? chars->find(bytes.substr(begin, end - begin)) != std::string_view::npos
               : is_space(next_code_point(bytes, pos));
  };
  size_t begin = 0;
  size_t end = bytes.size();
  while (left && begin < end) {
    const size_t next = begin + utf8_length(static_cast<unsigned char>(bytes[begin]));
    if (!goes(begin, next)) {
      break;
    }
    begin = next;
  }
  while (right && end > begin) {
    const size_t before = character_before(bytes, end);
    if (!goes(before, end)) {
      break;
    }
    end = before;
  }
  return text.substr(begin, end);
}

MarkedText to_upper(const MarkedText& text) {
  return map_characters(text, [&](size_t begin, size_t) { return upper(code_at(text, begin)); });
}

MarkedText to_lower(const MarkedText& text) {
  return map_characters(
      text, [&](size_t begin, size_t end) { return lower_at(text.bytes(), begin, end); });
}

MarkedText capitalize(const MarkedText& text) {
  return map_characters(text, [&](size_t begin, size_t end) {
    return begin == 0 ? title(code_at(text, begin)) : lower_at(text.bytes(), begin, end);
  });
}

MarkedText title_case(const MarkedText& text) {
  bool inside = false;
  return map_characters(text, [&](size_t begin, size_t end) {
    const char32_t code = code_at(text, begin);
    const bool continues = std::exchange(inside, is_cased(code));
    return continues ? lower_at(text.bytes(), begin, end) : title(code);
  });
}

MarkedText swap_case(const MarkedText& text) {
  return map_characters(text, [&](size_t begin, size_t end) {
    const char32_t code = code_at(text, begin);
    return CharClasses::get().is(code, kUpper) ? lower_at(text.bytes(), begin, end) : upper(code);
  });
}

MarkedText replace(const MarkedText& text, std::string_view from, const MarkedText& to,
                   int64_t count) {
  const std::string_view bytes = text.bytes();
  MarkedText out;
  out.markup = text.markup;
  size_t done = 0;
  if (from.empty()) {
    for (size_t pos = 0; count != 0; --count) {
      out.append(to);
      if (pos >= bytes.size()) {
        break;
      }
      pos += utf8_length(static_cast<unsigned char>(bytes[pos]));
      out.append(text.substr(done, pos));
      done = pos;
    }
  } else {
    for (size_t pos = bytes.find(from); pos != std::string_view::npos && count != 0; --count) {
      out.append(text.substr(done, pos));
      out.append(to);
      done = pos + from.size();
      pos = bytes.find(from, done);
    }
  }
  out.append(text.substr(done, bytes.size()));
  return out;
}

MarkedText escape_html(const MarkedText& text) {
  MarkedText out;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    const char c = text.bytes()[pos];
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '"'  ? "&#34;"
                                    : c == '\'' ? "&#39;"
                                                : std::string_view();
    if (entity.empty()) {
      out.append(std::string_view(text.bytes()).substr(pos, 1), text.from_template(pos));
    } else {
      out.append(entity, text.from_template(pos));
    }
  }
  out.markup = true;
  return out;
}

}  // namespace zonda::text::jinja
