// UTF-8: decoding, checking and the replacement of invalid bytes by U+FFFD.
// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <algorithm>

namespace zonda::text {
namespace {

// Bytes that may follow a lead byte first; later ones are 80..BF (Unicode standard, table 3-7).
struct LeadRule {
  uint8_t length;  // 0: never a lead byte
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
};

LeadRule lead_rule(unsigned char lead) {
  if (lead < 0x80) {
    return {1};
  }
  if (lead < 0xc2 || lead > 0xf4) {
    return {0};
  }
  if (lead < 0xe0) {
    return {2};
  }
  if (lead < 0xf0) {
    return lead == 0xe0   ? LeadRule{3, 0xa0, 0xbf}
           : lead == 0xed ? LeadRule{3, 0x80, 0x9f}
                          : LeadRule{3};
  }
  return lead == 0xf0   ? LeadRule{4, 0x90, 0xbf}
         : lead == 0xf4 ? LeadRule{4, 0x80, 0x8f}
                        : LeadRule{4};
}

}  // namespace

Utf8Step check_utf8(std::string_view text, size_t pos) {
  const LeadRule rule = lead_rule(static_cast<unsigned char>(text[pos]));
  if (rule.length <= 1) {
    return {rule.length == 1 ? Utf8Step::Kind::kValid : Utf8Step::Kind::kInvalid, 1};
  }
  for (uint8_t i = 1; i < rule.length; ++i) {
    if (pos + i >= text.size()) {
      return {Utf8Step::Kind::kIncomplete, i};
    }
    const auto byte = static_cast<unsigned char>(text[pos + i]);
    const uint8_t low = i == 1 ? rule.low : 0x80;
    const uint8_t high = i == 1 ? rule.high : 0xbf;
    if (byte < low || byte > high) {
      return {Utf8Step::Kind::kInvalid, i};
    }
  }
  return {Utf8Step::Kind::kValid, rule.length};
}

bool is_valid_utf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    if (static_cast<unsigned char>(text[pos]) < 0x80) {
      ++pos;
      continue;
    }
    const Utf8Step step = check_utf8(text, pos);
    if (step.kind != Utf8Step::Kind::kValid) {
      return false;
    }
    pos += step.length;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = check_utf8(text, pos);
    if (step.kind == Utf8Step::Kind::kValid) {
      out.append(text, pos, step.length);
    } else {
      out += kReplacementUtf8;
    }
    pos += step.length;
  }
  return out;
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t value) { out.push_back(static_cast<char>(value)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

std::u32string to_code_points(std::string_view valid_utf8) {
  std::u32string codes;
  codes.reserve(valid_utf8.size());
  for (size_t pos = 0; pos < valid_utf8.size();) {
    codes.push_back(next_code_point(valid_utf8, pos));
  }
  return codes;
}

std::string to_utf8(std::u32string_view codes) {
  std::string out;
  out.reserve(codes.size());
  for (const char32_t code : codes) {
    append_utf8(out, code);
  }
  return out;
}

size_t count_code_points(std::string_view valid_utf8) {
  return static_cast<size_t>(std::count_if(valid_utf8.begin(), valid_utf8.end(),
                                           [](char byte) { return !is_utf8_continuation(byte); }));
}

}  // namespace zonda::text
