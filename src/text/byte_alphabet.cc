// GPT-2's reversible alphabet.
// SPDX-License-Identifier: Apache-2.0
#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace zonda::text {
namespace {

constexpr char32_t kEnd = 0x144;  // one behind the alphabet's last character

struct Alphabet {
  std::string characters[256];
  std::array<int16_t, kEnd> bytes;  // -1: not in the alphabet
};

// Printable Latin-1 stands for itself; the other bytes, in order, for U+0100 and up.
Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.bytes.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    const char32_t code = printable ? static_cast<char32_t>(byte) : next++;
    append_utf8(alphabet.characters[byte], code);
    alphabet.bytes[code] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

const Alphabet& alphabet() {
  static const Alphabet instance = make_alphabet();
  return instance;
}

}  // namespace

const std::string (&byte_alphabet())[256] { return alphabet().characters; }

std::optional<uint8_t> byte_of_character(char32_t code) {
  if (code >= kEnd || alphabet().bytes[code] < 0) {
    return std::nullopt;
  }
  return static_cast<uint8_t>(alphabet().bytes[code]);
}

std::optional<std::string> alphabet_to_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const std::optional<uint8_t> byte = byte_of_character(next_code_point(text, pos));
    if (!byte.has_value()) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

}  // namespace zonda::text
