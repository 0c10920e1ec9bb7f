// GPT-2's reversible alphabet: every byte as one printable character, so that byte-level
// vocabularies can be written as text. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zonda::text {

// The character of each byte, in UTF-8.
const std::string (&byte_alphabet())[256];
// The byte of a character of the alphabet; nullopt for all other characters.
std::optional<uint8_t> byte_of_character(char32_t code);
// The bytes that a text in the alphabet stands for; nullopt if it has another character.
std::optional<std::string> alphabet_to_bytes(std::string_view text);

}  // namespace zonda::text
