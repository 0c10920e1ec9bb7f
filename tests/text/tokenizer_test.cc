// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/stream_detokenizer.h"
#include "text/tiny_tokenizer.h"

namespace zonda::text {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> tiny() {
  auto tokenizer = Tokenizer::from_json(dump_json(tiny_tokenizer_json()), "");
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.error().message);
  return std::move(*tokenizer);
}

// Strict UTF-8, by Unicode's table 3-7.
bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto at = [&](size_t j) {
      return i + j < text.size() ? static_cast<unsigned char>(text[i + j]) : 0u;
    };
    const unsigned lead = at(0);
    size_t length = 1;
    unsigned low = 0x80;
    unsigned high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
      length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      length = 3;
      low = lead == 0xe0 ? 0xa0 : 0x80;
      high = lead == 0xed ? 0x9f : 0xbf;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      length = 4;
      low = lead == 0xf0 ? 0x90 : 0x80;
      high = lead == 0xf4 ? 0x8f : 0xbf;
    } else if (lead > 0x7f) {
      return false;
    }
    for (size_t j = 1; j < length; ++j) {
      if (at(j) < (j == 1 ? low : 0x80) || at(j) > (j == 1 ? high : 0xbf)) {
        return false;
      }
    }
    i += length;
  }
  return true;
}

TEST(Tokenizer, MergesByRankWithinAWord) {
  const auto tokenizer = tiny();
  EXPECT_EQ(*tokenizer->encode("hello"), (Ids{258, 'o'}));
  EXPECT_EQ(*tokenizer->encode("lll"), (Ids{257, 'l'}));
  EXPECT_EQ(*tokenizer->encode("he ll"), (Ids{256, ' ', 257}));
  EXPECT_EQ(*tokenizer->encode(""), Ids{});
}

TEST(Tokenizer, TextOfAUserSpellsNoSpecialToken) {
  const auto tokenizer = tiny();
  EXPECT_EQ(tokenizer->encode("<|a|>")->size(), 5u);
  EXPECT_EQ(*tokenizer->encode("<|a|>", {.parse_special = true}), Ids{259});
  const std::vector<Segment> segments = {{"<|a|>", true}, {"<|b|>", false}, {"<|b|>", true}};
  const Ids ids = *tokenizer->encode_segments(segments);
  EXPECT_EQ(ids.front(), 259);
  EXPECT_EQ(ids.back(), 260);
  EXPECT_EQ(ids.size(), 7u);
}

TEST(Tokenizer, ASpecialTokenSplitOverSegmentsOfInputAndTemplateStaysText) {
  const std::vector<Segment> segments = {{"<|", true}, {"a", false}, {"|>", true}};
  EXPECT_EQ(tiny()->encode_segments(segments)->size(), 5u);
}

TEST(Tokenizer, WhiteSpaceThatATokenTakesAlongBelongsToNoOther) {
  Json json = tiny_tokenizer_json();
  json["added_tokens"].push_back({{"id", 300}, {"content", "<m>"}, {"rstrip", true}});
  json["added_tokens"].push_back({{"id", 301}, {"content", "  "}});
  const auto tokenizer = Tokenizer::from_json(dump_json(json), "");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(*(*tokenizer)->encode("<m>   x"), (Ids{300, 'x'}));
  EXPECT_EQ(*(*tokenizer)->encode("   x"), (Ids{301, ' ', 'x'}));
}

TEST(Tokenizer, OffsetsCoverTheTextInOrder) {
  const std::string text = "hello \xc3\xa9t\xc3\xa9";
  const Encoding encoding = *tiny()->encode_with_offsets(text);
  EXPECT_EQ(encoding.ids.size(), encoding.offsets.size());
  EXPECT_EQ(encoding.pieces[0], "hell");
  EXPECT_EQ(encoding.offsets[0].begin, 0u);
  EXPECT_EQ(encoding.offsets[0].end, 4u);
  EXPECT_EQ(encoding.offsets.back().end, text.size());
}

TEST(Tokenizer, EveryTextSurvivesTheRoundTrip) {
  const auto tokenizer = tiny();
  for (const std::string text : {"hello world", "\xf0\x9f\x98\x80 \xe4\xbd\xa0\xe5\xa5\xbd",
                                 "a\n\n\tb  c", "<|a|>", "it's 12345", "\xcc\x81 combining"}) {
    EXPECT_EQ(tokenizer->decode(*tokenizer->encode(text), false), text);
  }
}

TEST(Tokenizer, UnsupportedPartsAreRefusedByName) {
  Json json = tiny_tokenizer_json();
  json["model"]["type"] = "Oracle";
  auto tokenizer = Tokenizer::from_json(dump_json(json), "");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_NE(tokenizer.error().message.find("Oracle"), std::string::npos);
  json = tiny_tokenizer_json();
  json["pre_tokenizer"]["type"] = "Whirl";
  tokenizer = Tokenizer::from_json(dump_json(json), "");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_NE(tokenizer.error().message.find("Whirl"), std::string::npos);
  EXPECT_FALSE(Tokenizer::from_json("{", "").ok());
}

TEST(StreamDetokenizer, DeltasAreValidAndJoinToTheDecodeOfAnyIds) {
  const auto tokenizer = tiny();
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    Ids ids(random() % 16);
    for (int32_t& id : ids) {
      // Lead and continuation bytes are frequent, so that characters are cut, broken and finished.
      id = random() % 3 == 0 ? static_cast<int32_t>(random() % 264)
                             : static_cast<int32_t>(0x80 + random() % 0x80);
    }
    const bool skip = random() % 2 == 0;
    StreamDetokenizer stream(*tokenizer, skip);
    std::string joined;
    for (const int32_t id : ids) {
      const std::string delta = stream.push(id);
      EXPECT_TRUE(is_utf8(delta));
      joined += delta;
    }
    const std::string rest = stream.flush();
    EXPECT_TRUE(is_utf8(rest));
    EXPECT_EQ(joined + rest, tokenizer->decode(ids, skip));
  }
}

TEST(StreamDetokenizer, HoldsACharacterBackUntilItIsWhole) {
  const auto tokenizer = tiny();
  StreamDetokenizer stream(*tokenizer, true);
  EXPECT_EQ(stream.push(0xe4), "");
  EXPECT_EQ(stream.push(0xbd), "");
  EXPECT_EQ(stream.push(0xa0), "\xe4\xbd\xa0");
  EXPECT_EQ(stream.push(0xe4), "");
  EXPECT_EQ(stream.flush(), "\xef\xbf\xbd");
}

}  // namespace
}  // namespace zonda::text
