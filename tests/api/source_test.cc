// Which form of a model a path holds, what identifies it, and the settings beside it.
// SPDX-License-Identifier: Apache-2.0
#include "api/source.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "api/chat_renderer.h"
#include "api/generation_settings.h"
#include "base/file.h"
#include "test_support/temp_folder.h"
#include "text/chat_template.h"

namespace zonda::api {
namespace {

namespace fs = std::filesystem;
const std::string kGolden = ZONDA_SOURCE_DIR "/tests/golden/tiny/gqa_tied";

void put(const std::string& path, const std::string& content) {
  fs::create_directories(fs::path(path).parent_path());
  ASSERT_TRUE(write_file(path, content).ok());
}

TEST(Source, EachFormIsFoundByItsFiles) {
  const TempFolder folder;
  const std::string root = folder.path();
  put(root + "/checkpoint/config.json", R"({"architecture": "LlamaForCausalLM"})");
  put(root + "/engine/rank0.engine", "x");
  put(root + "/engine/config.json", "{}");
  put(root + "/gguf/m.gguf", "x");
  const auto kind = [](const std::string& path) { return find_source(path)->kind; };
  EXPECT_EQ(kind(kGolden), SourceKind::kModelFolder);
  EXPECT_EQ(kind(root + "/checkpoint"), SourceKind::kCheckpoint);
  EXPECT_EQ(kind(root + "/engine"), SourceKind::kEngine);
  EXPECT_EQ(kind(root + "/engine/rank0.engine"), SourceKind::kEngine);
  EXPECT_EQ(find_source(root + "/engine/rank0.engine")->folder, root + "/engine");
  EXPECT_EQ(kind(root + "/gguf"), SourceKind::kGguf);
  EXPECT_EQ(kind(root + "/gguf/m.gguf"), SourceKind::kGguf);
}

TEST(Source, WhatIsNoModelIsRefusedByName) {
  const TempFolder folder;
  put(folder.path() + "/empty/readme", "x");
  put(folder.path() + "/other/config.json", R"({"a": 1})");
  for (const std::string& path : {folder.path() + "/none", folder.path() + "/empty",
                                  folder.path() + "/other", folder.path() + "/empty/readme"}) {
    const Result<ModelSource> source = find_source(path);
    ASSERT_FALSE(source.ok()) << path;
    EXPECT_NE(source.error().message.find(path), std::string::npos) << source.error().message;
  }
}

TEST(Source, TheFingerprintFollowsContentPathAndSalt) {
  const TempFolder folder;
  put(folder.path() + "/a/config.json", R"({"model_type": "llama"})");
  put(folder.path() + "/b/config.json", R"({"model_type": "llama"})");
  const auto print_of = [&](const std::string& name, const std::string& salt) {
    return *source_fingerprint(*find_source(folder.path() + name), salt);
  };
  const std::string first = print_of("/a", "s");
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(print_of("/a", "s"), first);
  EXPECT_EQ(print_of("/b/../a/", "s"), first);
  EXPECT_NE(print_of("/b", "s"), first);
  EXPECT_NE(print_of("/a", "t"), first);
  put(folder.path() + "/a/config.json", R"({"model_type": "llama" })");
  EXPECT_NE(print_of("/a", "s"), first);
}

TEST(Source, NamesOfEntriesAreSafe) {
  const auto name = [](const std::string& path, SourceKind kind) {
    return source_name({path, kind, ""});
  };
  EXPECT_EQ(name("/m/Smol LM/", SourceKind::kModelFolder), "Smol_LM");
  EXPECT_EQ(name("/m/a.Q4_1.gguf", SourceKind::kGguf), "a.Q4_1");
  EXPECT_EQ(name("..", SourceKind::kModelFolder), "model");
}

TEST(GenerationSettings, OnlyWhatTheFileSetsCounts) {
  const auto settings = parse_generation_settings(
      R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "eos_token_id": [2, 3]})", "f");
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->sampling.temperature, 0.6f);
  EXPECT_EQ(settings->sampling.top_p, 0.9f);
  EXPECT_EQ(settings->sampling.top_k, std::nullopt);
  EXPECT_EQ(settings->end_ids, (std::vector<int32_t>{2, 3}));
  EXPECT_TRUE(parse_generation_settings("{}", "f")->sampling.is_greedy());
}

TEST(GenerationSettings, DoSampleDecides) {
  EXPECT_TRUE(parse_generation_settings(R"({"do_sample": false, "temperature": 0.6})", "f")
                  ->sampling.is_greedy());
  EXPECT_EQ(parse_generation_settings(R"({"do_sample": true})", "f")->sampling.temperature, 1.0f);
}

TEST(GenerationSettings, WrongValuesAreNamed) {
  for (const char* json : {R"({"temperature": -1})", R"({"top_p": 2})", R"({"top_k": "x"})",
                           R"({"eos_token_id": -1})", R"({"eos_token_id": ["a"]})", "[]", "{"}) {
    const auto settings = parse_generation_settings(json, "generation_config.json");
    ASSERT_FALSE(settings.ok()) << json;
    EXPECT_NE(settings.error().message.find("generation_config.json"), std::string::npos) << json;
  }
}

TEST(ChatRenderer, TheTemplateIsAFileOrATextOrAListOfNamedTexts) {
  const ChatPrompt prompt{{{"user", "hi"}}, "", "", true};
  const auto text_of = [&](const TextFiles& files) -> std::string {
    Result<std::unique_ptr<ChatRenderer>> chat = make_chat_renderer(files);
    if (!chat || *chat == nullptr) {
      return "none";
    }
    const Result<std::vector<text::Segment>> segments = (*chat)->render(prompt);
    return segments ? text::join_segments(*segments) : segments.error().message;
  };
  TextFiles files;
  EXPECT_EQ(text_of(files), "none");
  files.tokenizer_config = R"({"bos_token": {"content": "<s>"},
                               "chat_template": "{{ bos_token }}{{ messages[0].content }}"})";
  EXPECT_EQ(text_of(files), "<s>hi");
  files.tokenizer_config = R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                                 {"name": "default", "template": "d"}]})";
  EXPECT_EQ(text_of(files), "d");
  files.chat_template = "file";
  EXPECT_EQ(text_of(files), "file");
  files.chat_template = "{% broken";
  EXPECT_FALSE(make_chat_renderer(files).ok());
}

}  // namespace
}  // namespace zonda::api
