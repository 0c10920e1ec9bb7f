// A GGUF tokenizer becomes the files that Hugging Face's libraries read.
// SPDX-License-Identifier: Apache-2.0
#include "convert/tokenizer_files.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/gguf_builder.h"
#include "convert/plan.h"
#include "convert/rows.h"
#include "test_support/temp_folder.h"

namespace zonda::convert {
namespace {

using checkpoint::GgufBuilder;
using checkpoint::GgufFile;

// Seven tokens: control, user-defined, normal ones, an unused one.
GgufBuilder vocabulary(const std::string& pre) {
  GgufBuilder builder;
  builder.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", pre);
  builder.strings("tokenizer.ggml.tokens",
                  {"<|end|>", "a", "\"", "\xc4\xa0", "a\"", "[PAD5]", "<user>"});
  builder.integers("tokenizer.ggml.token_type", {3, 1, 1, 1, 1, 5, 4});
  builder.strings("tokenizer.ggml.merges", {"a \""});
  builder.u32("tokenizer.ggml.bos_token_id", 0).u32("tokenizer.ggml.eos_token_id", 0);
  return builder;
}

class Files {
 public:
  explicit Files(const GgufBuilder& builder) {
    const std::string path = temp_.path() + "/a.gguf";
    EXPECT_TRUE(write_file(path, builder.build()).ok());
    file_.emplace(GgufFile::open(path).value());
    const Result<TokenizerFiles> made = gguf_tokenizer_files(*file_);
    EXPECT_TRUE(made.ok()) << made.error().message;
    all = *made;
  }
  std::string text(const std::string& name) const {
    for (const TextFile& file : all.files) {
      if (file.name == name) {
        return file.content;
      }
    }
    return {};
  }
  Json json(const std::string& name) const { return parse_json(text(name), name).value(); }

  TokenizerFiles all;

 private:
  TempFolder temp_;
  std::optional<GgufFile> file_;
};

TEST(GgufTokenizer, VocabularyMergesAndAddedTokensAreCarriedOver) {
  const Files files(vocabulary("smollm"));
  const Json json = files.json("tokenizer.json");
  EXPECT_EQ(
      json["model"]["vocab"],
      Json({{"<|end|>", 0}, {"a", 1}, {"\"", 2}, {"\xc4\xa0", 3}, {"a\"", 4}, {"<user>", 6}}));
  EXPECT_EQ(json["model"]["merges"], Json::array({"a \""}));
  ASSERT_EQ(json["added_tokens"].size(), 2u);
  EXPECT_EQ(json["added_tokens"][0]["content"], "<|end|>");
  EXPECT_EQ(json["added_tokens"][0]["special"], true);
  EXPECT_EQ(json["added_tokens"][1]["id"], 6);
  EXPECT_EQ(json["added_tokens"][1]["special"], false);
  EXPECT_EQ(json["added_tokens"][1]["normalized"], false);
  const Json config = files.json("tokenizer_config.json");
  EXPECT_EQ(config["bos_token"], "<|end|>");
  EXPECT_EQ(config["eos_token"], "<|end|>");
  EXPECT_FALSE(config.contains("pad_token"));
  EXPECT_TRUE(files.text("chat_template.jinja").empty());
}

TEST(GgufTokenizer, EachFamilyCutsTextInItsWay) {
  EXPECT_EQ(Files(vocabulary("gpt-2")).json("tokenizer.json")["pre_tokenizer"]["type"],
            "ByteLevel");
  const Json smollm = Files(vocabulary("smollm")).json("tokenizer.json")["pre_tokenizer"];
  EXPECT_EQ(smollm["pretokenizers"][0]["type"], "Digits");
  EXPECT_EQ(smollm["pretokenizers"][1]["use_regex"], true);
  for (const char* pre : {"llama-bpe", "qwen2"}) {
    const Json cut = Files(vocabulary(pre)).json("tokenizer.json")["pre_tokenizer"];
    EXPECT_EQ(cut["pretokenizers"][0]["type"], "Split");
    EXPECT_EQ(cut["pretokenizers"][1]["use_regex"], false);
  }
  EXPECT_EQ(Files(vocabulary("qwen2")).json("tokenizer.json")["normalizer"]["type"], "NFC");
}

TEST(GgufTokenizer, TheBeginningTokenIsAddedAsTheFamilyOrTheFileSays) {
  const auto adds = [](GgufBuilder builder) {
    const Files files(builder);
    const bool config = files.json("tokenizer_config.json")["add_bos_token"].get<bool>();
    const Json processor = files.json("tokenizer.json")["post_processor"];
    EXPECT_EQ(processor["type"] == "TemplateProcessing", config);
    return config;
  };
  EXPECT_FALSE(adds(vocabulary("smollm")));
  EXPECT_TRUE(adds(vocabulary("llama-bpe")));
  EXPECT_TRUE(adds(vocabulary("smollm").boolean("tokenizer.ggml.add_bos_token", true)));
  EXPECT_FALSE(adds(vocabulary("llama-bpe").boolean("tokenizer.ggml.add_bos_token", false)));
}

TEST(GgufTokenizer, TheChatTemplateIsKeptByteForByte) {
  const std::string chat = "{% for m in messages %}\n{{ m['content'] }}\t\"\\n\"{% endfor %}";
  EXPECT_EQ(Files(vocabulary("smollm").string("tokenizer.chat_template", chat))
                .text("chat_template.jinja"),
            chat);
}

TEST(GgufTokenizer, WhatIsNotSupportedIsSaidByName) {
  GgufBuilder llama;
  llama.string("tokenizer.ggml.model", "llama");
  EXPECT_EQ(Files(llama).all.remark, "tokenizer.ggml.model \"llama\" is not supported");
  EXPECT_EQ(Files(vocabulary("superbpe")).all.remark,
            "tokenizer.ggml.pre \"superbpe\" is not supported");
  EXPECT_EQ(Files(GgufBuilder()).all.remark, "the file has no tokenizer");
}

TEST(Pattern, AStarStandsForAnyCharacters) {
  EXPECT_TRUE(matches_pattern("lm_head", "lm_head"));
  EXPECT_FALSE(matches_pattern("lm_head", "lm_head2"));
  EXPECT_FALSE(matches_pattern("lm_head2", "lm_head"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("*.mlp.*", "transformer.layers.0.mlp.fc"));
  EXPECT_TRUE(matches_pattern("*fc", "fc.fc"));
  EXPECT_TRUE(matches_pattern("a*b*c", "aXbXbc"));
  EXPECT_FALSE(matches_pattern("a*b*c", "aXbXbcX"));
  EXPECT_FALSE(matches_pattern("", "a"));
}

TEST(StoredRow, IsWhereAnInterleavedHeadKeepsTheRow) {
  // One head of 6 rows is stored as a0 b0 a1 b1 a2 b2.
  const std::vector<int64_t> expected = {0, 2, 4, 1, 3, 5};
  for (int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(stored_row(row, 12, 2), expected[static_cast<size_t>(row)]);
    EXPECT_EQ(stored_row(row + 6, 12, 2), expected[static_cast<size_t>(row)] + 6);
    EXPECT_EQ(stored_row(row, 12, 0), row);
  }
}

}  // namespace
}  // namespace zonda::convert
