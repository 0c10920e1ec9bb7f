// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ctime>

#include "base/json.h"
#include "text/chat_template.h"
#include "text/stream_detokenizer.h"
#include "text/tokenizer.h"

namespace zonda::text {
namespace {

const std::string kFolder = std::string(ZONDA_SOURCE_DIR) + "/tests/text/goldens/";

class TokenizerGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    golden_ = *parse_json_file(kFolder + "tokenizer_" + GetParam() + ".json");
    auto tokenizer = Tokenizer::from_json(dump_json(golden_["tokenizer"]), "");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    tokenizer_ = std::move(*tokenizer);
  }
  Json golden_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

// The package `tokenizers` made the expected values: tests/text/make_text_goldens.py.
TEST_P(TokenizerGolden, IdsPiecesOffsetsAndTextEqualTheReference) {
  ASSERT_GT(golden_["cases"].size(), 20u);
  for (const Json& expected : golden_["cases"]) {
    const auto text = expected["text"].get<std::string>();
    const bool special = expected["special"].get<bool>();
    const EncodeOptions options{.add_special_tokens = special, .parse_special = special};
    const Encoding encoding = *tokenizer_->encode_with_offsets(text, options);
    EXPECT_EQ(Json(encoding.ids), expected["ids"]) << text;
    EXPECT_EQ(Json(encoding.pieces), expected["pieces"]) << text;
    std::vector<uint32_t> offsets;
    for (const ByteRange& range : encoding.offsets) {
      offsets.insert(offsets.end(), {range.begin, range.end});
    }
    EXPECT_EQ(Json(offsets), expected["offsets"]) << text;
    EXPECT_EQ(*tokenizer_->encode(text, options), encoding.ids) << text;
    EXPECT_EQ(tokenizer_->decode(encoding.ids, special), expected["decoded"].get<std::string>());
  }
}

TEST_P(TokenizerGolden, StreamedTextEqualsTheDecodedText) {
  for (const Json& expected : golden_["cases"]) {
    const auto ids = expected["ids"].get<std::vector<int32_t>>();
    StreamDetokenizer stream(*tokenizer_, false);
    std::string joined;
    for (const int32_t id : ids) {
      joined += stream.push(id);
    }
    EXPECT_EQ(joined + stream.flush(), tokenizer_->decode(ids, false));
  }
}

TEST_P(TokenizerGolden, TemplateSegmentsCutAnywhereEncodeAsTheWholeText) {
  for (const Json& expected : golden_["cases"]) {
    const auto text = expected["text"].get<std::string>();
    std::vector<Segment> segments;
    for (size_t begin = 0; begin < text.size();) {
      size_t end = begin + 1 + begin % 3;
      while (end < text.size() && (text[end] & 0xc0) == 0x80) {
        ++end;
      }
      segments.push_back({text.substr(begin, end - begin), true});
      begin = std::min(end, text.size());
    }
    EXPECT_EQ(*tokenizer_->encode_segments(segments),
              *tokenizer_->encode(text, {.parse_special = true}))
        << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerGolden,
                         testing::Values("byte_level", "split_regex", "byte_fallback", "metaspace",
                                         "late_splits", "word_splits"));

// jinja2 made the expected values; null stands for a refusal.
TEST(TemplateGolden, TextsAndRefusalsEqualTheReference) {
  const OrderedJson golden = *parse_ordered_json_file(kFolder + "templates.json");
  RenderOptions options;
  options.now = std::tm{};
  options.now->tm_year = 126;
  options.now->tm_mon = 6;
  options.now->tm_mday = 4;
  options.now->tm_hour = 13;
  options.now->tm_min = 5;
  options.now->tm_sec = 9;
  options.now->tm_wday = 6;
  options.now->tm_yday = 184;
  ASSERT_GT(golden["cases"].size(), 100u);
  for (const OrderedJson& expected : golden["cases"]) {
    const auto source = expected["source"].get<std::string>();
    const auto parsed = ChatTemplate::parse(source);
    if (!parsed.ok()) {
      EXPECT_TRUE(expected["text"].is_null()) << source << "\n" << parsed.error().message;
      continue;
    }
    const auto rendered = (*parsed)->render(golden["variables"], options);
    if (expected["text"].is_null()) {
      EXPECT_FALSE(rendered.ok()) << source;
    } else {
      ASSERT_TRUE(rendered.ok()) << source << "\n" << rendered.error().message;
      EXPECT_EQ(join_segments(*rendered), expected["text"].get<std::string>()) << source;
    }
  }
}

}  // namespace
}  // namespace zonda::text
