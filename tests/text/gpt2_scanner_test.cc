// SPDX-License-Identifier: Apache-2.0
#include "text/gpt2_scanner.h"

#include <gtest/gtest.h>

#include <random>

#include "text/regex.h"
#include "text/utf8.h"

namespace zonda::text {
namespace {

using Cuts = std::vector<size_t>;

Cuts by_scanner(std::string_view text) {
  Cuts cuts;
  for (size_t pos = 0; pos < text.size();) {
    pos = gpt2_match_end(text, pos);
    cuts.push_back(pos);
  }
  return cuts;
}

Cuts by_regex(const Regex& regex, std::string_view text) {
  Cuts cuts;
  const auto done = regex.for_each_match(text, [&](size_t, size_t end) { cuts.push_back(end); });
  EXPECT_TRUE(done.ok());
  return cuts;
}

TEST(Gpt2Scanner, CutsWhereTheRegularExpressionDoes) {
  const auto regex = Regex::compile(kGpt2Pattern);
  ASSERT_TRUE(regex.ok()) << regex.error().message;
  constexpr std::u32string_view kFrequent =
      U"   \n\t\r'''sstremvdlaZ019!-.\u00a0\u3000\u0301é½²中🙂";
  std::mt19937 random(3);
  for (int i = 0; i < 10000; ++i) {
    std::string text;
    for (size_t n = random() % 24; n > 0; --n) {
      const bool rare = random() % 8 == 0;
      const char32_t code = rare ? random() % 0x110000 : kFrequent[random() % kFrequent.size()];
      append_utf8(text, code >= 0xd800 && code < 0xe000 ? U'x' : code);
    }
    ASSERT_EQ(by_scanner(text), by_regex(**regex, text)) << text;
  }
}

TEST(Gpt2Scanner, ClassesOfAllCharactersEqualTheRegularExpressions) {
  const auto regex = Regex::compile(kGpt2Pattern);
  for (char32_t block = 0; block < 0x110000; block += 256) {
    if (block >= 0xd800 && block < 0xe000) {
      continue;
    }
    std::string text;
    for (char32_t code = block; code < block + 256; ++code) {
      text += "a";
      append_utf8(text, code);
      text += "1 ";
      append_utf8(text, code);
    }
    ASSERT_EQ(by_scanner(text), by_regex(**regex, text)) << static_cast<uint32_t>(block);
  }
}

}  // namespace
}  // namespace zonda::text
