// Classes of Unicode characters as the tokenizers' regular expressions and rules see them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace zonda::text {

// Bits of CharClasses::of().
enum CharClass : uint16_t {
  kLetter = 1 << 0,       // \p{L}
  kMark = 1 << 1,         // \p{M}
  kNumber = 1 << 2,       // \p{N}
  kPunctuation = 1 << 3,  // \p{P}
  kSymbol = 1 << 4,       // \p{S}
  kSpace = 1 << 5,        // \s: White_Space
  kWord = 1 << 6,         // \w of UTS #18: Alphabetic, M, Nd, Pc, Join_Control
  kUpper = 1 << 7,        // \p{Lu}, \p{Lt}
  kLower = 1 << 8,        // \p{Ll}
};

// One table from one source, Oniguruma's Unicode data, so that the hand-written scanners and the
// regular expressions cannot disagree. Immutable; shared by all threads.
class CharClasses {
 public:
  static const CharClasses& get();

  uint16_t of(char32_t code) const { return blocks_[index_[code >> 8] * 256u + (code & 0xffu)]; }
  bool is(char32_t code, uint16_t classes) const { return (of(code) & classes) != 0; }

 private:
  CharClasses();
  std::array<uint16_t, 0x1100> index_{};  // block of each run of 256 code points
  std::vector<uint16_t> blocks_;          // [distinct blocks, 256]
};

}  // namespace zonda::text
