// String literals of the template language.
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/string_literal.h"

#include <charconv>

#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

// Reads `count` hexadecimal digits at literal[pos].
char32_t read_hex(std::string_view literal, size_t pos, size_t count, Position at) {
  uint32_t value = 0;
  const char* begin = literal.data() + std::min(pos, literal.size());
  const char* end = literal.data() + std::min(pos + count, literal.size());
  const auto result = std::from_chars(begin, end, value, 16);
  if (static_cast<size_t>(end - begin) != count || result.ptr != end || value > 0x10ffff) {
    fail_at(at, "a string has a malformed escape \\{}", literal[pos - 1]);
  }
  return value;
}

bool is_octal(char c) { return c >= '0' && c <= '7'; }

}  // namespace

size_t string_literal_end(std::string_view source, size_t begin) {
  for (size_t pos = begin + 1; pos < source.size(); ++pos) {
    if (source[pos] == '\\') {
      ++pos;
    } else if (source[pos] == source[begin]) {
      return pos + 1;
    }
  }
  return std::string_view::npos;
}

std::string unescape(std::string_view literal, Position at) {
  constexpr std::string_view kPlain = "\\'\"abfnrtv";
  constexpr std::string_view kMeaning = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  for (size_t pos = 0; pos < literal.size(); ++pos) {
    if (literal[pos] != '\\' || pos + 1 >= literal.size()) {
      out += literal[pos];
      continue;
    }
    const char kind = literal[++pos];
    if (const size_t plain = kPlain.find(kind); plain != std::string_view::npos) {
      out += kMeaning[plain];
    } else if (is_octal(kind)) {
      char32_t code = 0;
      size_t count = 0;
      for (; count < 3 && pos + count < literal.size() && is_octal(literal[pos + count]); ++count) {
        code = code * 8 + static_cast<char32_t>(literal[pos + count] - '0');
      }
      append_utf8(out, code);
      pos += count - 1;
    } else if (kind == 'x' || kind == 'u' || kind == 'U') {
      const size_t count = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
      char32_t code = read_hex(literal, pos + 1, count, at);
      pos += count;
      const bool high = code >= 0xd800 && code < 0xdc00;
      if (high && literal.substr(pos + 1).starts_with("\\u")) {
        const char32_t low = read_hex(literal, pos + 3, 4, at);
        if (low >= 0xdc00 && low < 0xe000) {
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
          pos += 6;
        }
      }
      append_utf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
    } else if (kind == 'N') {
      fail_unsupported(at, "the escape \\N{{...}} is not supported");
    } else if (kind != '\n') {
      out += '\\';
      out += kind;
    }
  }
  return out;
}

}  // namespace zonda::text::jinja
