// UTF-8: decoding, checking and the replacement of invalid bytes by U+FFFD.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zonda::text {

inline constexpr std::string_view kReplacementUtf8 = "\xef\xbf\xbd";  // U+FFFD

// One step of checking bytes that may be anything.
struct Utf8Step {
  enum class Kind : uint8_t { kValid, kInvalid, kIncomplete };
  Kind kind;
  uint8_t length;  // bytes; kInvalid: the maximal part that one U+FFFD replaces
};
// Looks at the sequence that starts at text[pos]; pos < text.size(). kIncomplete: the text ends
// inside a sequence that more bytes could still make valid.
Utf8Step check_utf8(std::string_view text, size_t pos);

bool is_valid_utf8(std::string_view text);
// Every maximal invalid part becomes one U+FFFD (the Unicode standard's practice, section 3.9).
std::string to_valid_utf8(std::string_view text);

// Bytes of the sequence that a lead byte of valid UTF-8 starts.
inline size_t utf8_length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}
inline bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// Decodes the code point at text[pos] of valid UTF-8 and moves pos behind it.
inline char32_t next_code_point(std::string_view text, size_t& pos) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[pos + i]); };
  const unsigned char lead = byte(0);
  char32_t code = lead;
  if (lead < 0x80) {
    pos += 1;
  } else if (lead < 0xe0) {
    code = char32_t(lead & 0x1fu) << 6 | (byte(1) & 0x3fu);
    pos += 2;
  } else if (lead < 0xf0) {
    code = char32_t(lead & 0x0fu) << 12 | char32_t(byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
    pos += 3;
  } else {
    code = char32_t(lead & 0x07u) << 18 | char32_t(byte(1) & 0x3fu) << 12 |
           char32_t(byte(2) & 0x3fu) << 6 | (byte(3) & 0x3fu);
    pos += 4;
  }
  return code;
}

void append_utf8(std::string& out, char32_t code);
std::u32string to_code_points(std::string_view valid_utf8);
std::string to_utf8(std::u32string_view codes);
// Code points of valid UTF-8.
size_t count_code_points(std::string_view valid_utf8);

}  // namespace zonda::text
