// A tokenizer of one token a byte: id of a byte is its value; 256 is <s>, 257 is </s>.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace zonda::test {

inline constexpr int32_t kBos = 256;
inline constexpr int32_t kEos = 257;

inline std::unique_ptr<text::Tokenizer> byte_tokenizer() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[text::byte_alphabet()[byte]] = byte;
  }
  const auto added = [](int id, const char* content) {
    return Json{{"id", id},        {"content", content},   {"special", true},    {"lstrip", false},
                {"rstrip", false}, {"single_word", false}, {"normalized", false}};
  };
  const Json json = {
      {"version", "1.0"},
      {"added_tokens", {added(kBos, "<s>"), added(kEos, "</s>")}},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "ByteLevel"},
        {"add_prefix_space", false},
        {"trim_offsets", true},
        {"use_regex", false}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair",
         {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {kBos}}, {"tokens", {"<s>"}}}}}}}},
      {"decoder",
       {{"type", "ByteLevel"},
        {"add_prefix_space", true},
        {"trim_offsets", true},
        {"use_regex", true}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocab},
        {"merges", Json::array()}}}};
  Result<std::unique_ptr<text::Tokenizer>> tokenizer =
      text::Tokenizer::from_json(dump_json(json), R"({"eos_token": "</s>", "bos_token": "<s>"})");
  CHECK(tokenizer.ok());
  return std::move(*tokenizer);
}

}  // namespace zonda::test
