// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <set>

#include "base/error.h"
#include "convert/tokenizer_files.h"
#include "text/utf8.h"

namespace zonda::convert {
namespace {

using checkpoint::GgufFile;

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// How text is cut before the merges; one entry a family of tokenizer.ggml.pre names.
enum class Cut : uint8_t { kGpt2, kDigitsGpt2, kLlama3, kQwen2 };
struct PreTokenizer {
  std::string_view name;
  Cut cut;
};
constexpr std::array kPreTokenizers = {
    PreTokenizer{"gpt-2", Cut::kGpt2},        PreTokenizer{"phi-2", Cut::kGpt2},
    PreTokenizer{"smollm", Cut::kDigitsGpt2}, PreTokenizer{"starcoder", Cut::kDigitsGpt2},
    PreTokenizer{"refact", Cut::kDigitsGpt2}, PreTokenizer{"llama-bpe", Cut::kLlama3},
    PreTokenizer{"llama3", Cut::kLlama3},     PreTokenizer{"llama-v3", Cut::kLlama3},
    PreTokenizer{"qwen2", Cut::kQwen2},       PreTokenizer{"deepseek-r1-qwen", Cut::kQwen2},
};

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizer& entry : kPreTokenizers) {
    if (entry.name == name) {
      return &entry;
    }
  }
  return nullptr;
}

// Values of tokenizer.ggml.token_type.
constexpr int64_t kControl = 3;
constexpr int64_t kUserDefined = 4;
constexpr int64_t kUnused = 5;

OrderedJson byte_level(bool use_regex) {
  OrderedJson json;
  json["type"] = "ByteLevel";
  json["add_prefix_space"] = false;
  json["trim_offsets"] = true;
  json["use_regex"] = use_regex;
  return json;
}

OrderedJson split(std::string_view pattern) {
  OrderedJson json;
  json["type"] = "Split";
  json["pattern"]["Regex"] = pattern;
  json["behavior"] = "Isolated";
  json["invert"] = false;
  return json;
}

OrderedJson pre_tokenizer_json(Cut cut) {
  if (cut == Cut::kGpt2) {
    return byte_level(true);
  }
  OrderedJson first;
  if (cut == Cut::kDigitsGpt2) {
    first["type"] = "Digits";
    first["individual_digits"] = true;
  } else {
    first = split(cut == Cut::kLlama3 ? kLlama3Pattern : kQwen2Pattern);
  }
  OrderedJson json;
  json["type"] = "Sequence";
  json["pretokenizers"] = OrderedJson::array({first, byte_level(cut == Cut::kDigitsGpt2)});
  return json;
}

std::string quoted(std::string_view text) { return dump_json(Json(text)); }

class TokenizerMaker {
 public:
  TokenizerMaker(const GgufFile& file, Cut cut) : file_(file), cut_(cut) {}

  Result<TokenizerFiles> make() {
    if (Result<void> done = read_vocabulary(); !done.ok()) {
      return done.error();
    }
    if (Result<void> done = read_settings(); !done.ok()) {
      return done.error();
    }
    TokenizerFiles out;
    out.files.push_back({"tokenizer.json", tokenizer_json()});
    out.files.push_back({"tokenizer_config.json", dump_json(tokenizer_config(), 2) + "\n"});
    if (file_.has("tokenizer.chat_template")) {
      const Result<std::string_view> chat = file_.string("tokenizer.chat_template");
      if (!chat.ok()) {
        return chat.error();
      }
      out.files.push_back({"chat_template.jinja", std::string(*chat)});
    }
    return out;
  }

 private:
  Result<void> read_vocabulary() {
    Result<std::vector<std::string_view>> tokens = file_.strings("tokenizer.ggml.tokens");
    if (!tokens.ok()) {
      return tokens.error();
    }
    tokens_ = std::move(*tokens);
    types_.assign(tokens_.size(), 1);
    if (file_.has("tokenizer.ggml.token_type")) {
      Result<std::vector<int64_t>> types = file_.integers("tokenizer.ggml.token_type");
      if (!types.ok()) {
        return types.error();
      }
      if (types->size() != tokens_.size()) {
        return corrupt("[convert] {}: tokenizer.ggml.token_type has {} entries, expected {}.",
                       file_.path(), types->size(), tokens_.size());
      }
      types_ = std::move(*types);
    }
    Result<std::vector<std::string_view>> merges = file_.strings("tokenizer.ggml.merges");
    if (!merges.ok()) {
      return merges.error();
    }
    merges_ = std::move(*merges);
    return check_texts();
  }

  // A JSON file holds text, and each token once.
  Result<void> check_texts() const {
    std::set<std::string_view> seen;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!text::is_valid_utf8(tokens_[id])) {
        return corrupt("[convert] {}: token {} is not valid UTF-8.", file_.path(), id);
      }
      if (types_[id] != kUnused && !seen.insert(tokens_[id]).second) {
        return corrupt("[convert] {}: token {} repeats the text of an earlier one.", file_.path(),
                       id);
      }
    }
    for (size_t i = 0; i < merges_.size(); ++i) {
      const size_t space = merges_[i].find(' ', 1);
      if (!text::is_valid_utf8(merges_[i]) || space == std::string_view::npos) {
        return corrupt("[convert] {}: merge {} is not two tokens with a space between them.",
                       file_.path(), i);
      }
    }
    return {};
  }

  Result<void> read_settings() {
    add_bos_ = cut_ == Cut::kLlama3;
    if (file_.has("tokenizer.ggml.add_bos_token")) {
      const Result<bool> add_bos = file_.boolean("tokenizer.ggml.add_bos_token");
      if (!add_bos.ok()) {
        return add_bos.error();
      }
      add_bos_ = *add_bos;
    }
    for (const char* name : {"bos", "eos", "unknown", "padding"}) {
      const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
      if (!file_.has(key)) {
        continue;
      }
      const Result<int64_t> id = file_.integer(key);
      if (!id.ok()) {
        return id.error();
      }
      if (*id < 0 || *id >= static_cast<int64_t>(tokens_.size())) {
        return corrupt("[convert] {}: {} is {}, expected 0 to {}.", file_.path(), key, *id,
                       tokens_.size() - 1);
      }
    }
    return {};
  }

  // The text of a special token; empty if the file names none.
  std::string token_of(std::string_view name) const {
    const Result<int64_t> id = file_.integer(fmt::format("tokenizer.ggml.{}_token_id", name));
    return id.ok() ? std::string(tokens_[static_cast<size_t>(*id)]) : std::string();
  }

  OrderedJson added_tokens() const {
    OrderedJson list = OrderedJson::array();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (types_[id] != kControl && types_[id] != kUserDefined) {
        continue;
      }
      OrderedJson token;
      token["id"] = id;
      token["content"] = tokens_[id];
      token["single_word"] = false;
      token["lstrip"] = false;
      token["rstrip"] = false;
      token["normalized"] = false;
      token["special"] = types_[id] == kControl;
      list.push_back(std::move(token));
    }
    return list;
  }

  // Puts the beginning-of-text token first, as the byte-level families do that want one.
  OrderedJson post_processor() const {
    const std::string bos = token_of("bos");
    if (!add_bos_ || bos.empty()) {
      return byte_level(false);
    }
    const auto special = [&](int type_id) {
      OrderedJson item;
      item["SpecialToken"] = {{"id", bos}, {"type_id", type_id}};
      return item;
    };
    const auto sequence = [](const char* name, int type_id) {
      OrderedJson item;
      item["Sequence"] = {{"id", name}, {"type_id", type_id}};
      return item;
    };
    OrderedJson json;
    json["type"] = "TemplateProcessing";
    json["single"] = OrderedJson::array({special(0), sequence("A", 0)});
    json["pair"] = OrderedJson::array({special(0), sequence("A", 0), special(1), sequence("B", 1)});
    OrderedJson& entry = json["special_tokens"][bos];
    entry["id"] = bos;
    entry["ids"] = OrderedJson::array({*file_.integer("tokenizer.ggml.bos_token_id")});
    entry["tokens"] = OrderedJson::array({bos});
    return json;
  }

  // Written as text: an ordered object of 100,000 keys would search all of them for each new one.
  std::string model_json() const {
    std::string text = R"({"type":"BPE","dropout":null,"unk_token":null,)"
                       R"("continuing_subword_prefix":null,"end_of_word_suffix":null,)"
                       R"("fuse_unk":false,"byte_fallback":false,"ignore_merges":)";
    text += cut_ == Cut::kLlama3 ? "true" : "false";
    text += ",\"vocab\":{";
    bool first = true;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (types_[id] == kUnused) {
        continue;
      }
      text += fmt::format("{}\n{}:{}", first ? "" : ",", quoted(tokens_[id]), id);
      first = false;
    }
    text += "},\"merges\":[";
    for (size_t i = 0; i < merges_.size(); ++i) {
      text += fmt::format("{}\n{}", i == 0 ? "" : ",", quoted(merges_[i]));
    }
    return text + "]}";
  }

  std::string tokenizer_json() const {
    OrderedJson head;
    head["version"] = "1.0";
    head["truncation"] = nullptr;
    head["padding"] = nullptr;
    head["added_tokens"] = added_tokens();
    head["normalizer"] = nullptr;
    if (cut_ == Cut::kQwen2) {
      head["normalizer"] = {{"type", "NFC"}};
    }
    head["pre_tokenizer"] = pre_tokenizer_json(cut_);
    head["post_processor"] = post_processor();
    head["decoder"] = byte_level(true);
    std::string text = dump_json(head);
    text.back() = ',';
    return text + "\n\"model\":" + model_json() + "}\n";
  }

  OrderedJson tokenizer_config() const {
    OrderedJson json;
    json["tokenizer_class"] = "PreTrainedTokenizerFast";
    json["add_bos_token"] = add_bos_;
    json["add_prefix_space"] = false;
    json["clean_up_tokenization_spaces"] = false;
    const std::array<std::pair<const char*, const char*>, 4> names = {{{"bos_token", "bos"},
                                                                       {"eos_token", "eos"},
                                                                       {"unk_token", "unknown"},
                                                                       {"pad_token", "padding"}}};
    for (const auto& [field, name] : names) {
      if (const std::string token = token_of(name); !token.empty()) {
        json[field] = token;
      }
    }
    return json;
  }

  const GgufFile& file_;
  const Cut cut_;
  std::vector<std::string_view> tokens_;
  std::vector<int64_t> types_;
  std::vector<std::string_view> merges_;
  bool add_bos_ = false;
};

}  // namespace

Result<TokenizerFiles> gguf_tokenizer_files(const GgufFile& file) {
  if (!file.has("tokenizer.ggml.model")) {
    return TokenizerFiles{{}, "the file has no tokenizer"};
  }
  const Result<std::string_view> model = file.string("tokenizer.ggml.model");
  if (!model.ok()) {
    return model.error();
  }
  if (*model != "gpt2") {
    return TokenizerFiles{
        {},
        fmt::format("tokenizer.ggml.model \"{}\" is not supported", text::to_valid_utf8(*model))};
  }
  std::string_view pre = "default";
  if (file.has("tokenizer.ggml.pre")) {
    const Result<std::string_view> stated = file.string("tokenizer.ggml.pre");
    if (!stated.ok()) {
      return stated.error();
    }
    pre = *stated;
  }
  const PreTokenizer* found = find_pre_tokenizer(pre);
  if (found == nullptr) {
    return TokenizerFiles{
        {}, fmt::format("tokenizer.ggml.pre \"{}\" is not supported", text::to_valid_utf8(pre))};
  }
  return TokenizerMaker(file, found->cut).make();
}

}  // namespace zonda::convert
