// SPDX-License-Identifier: Apache-2.0
#include "convert/tokenizer_files.h"

#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/folder.h"

namespace zonda::convert {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 9> kCopied = {
    "tokenizer.json",      "tokenizer_config.json", "special_tokens_map.json",
    "chat_template.jinja", "chat_template.json",    "vocab.json",
    "merges.txt",          "added_tokens.json",     "tokenizer.model",
};
constexpr const char* kGenerationName = "generation_config.json";
constexpr std::string_view kNoTokenizer = "prompts must be token ids";

Result<std::vector<std::string>> copy_files(Source& source, const std::string& folder) {
  std::vector<std::string> written;
  for (const char* name : kCopied) {
    const std::string from = source.path + "/" + name;
    if (!checkpoint::file_exists(from)) {
      continue;
    }
    std::error_code code;
    fs::copy_file(from, folder + "/" + name, code);
    if (code) {
      return io_error("[convert] copy {} to {}: {}.", from, folder, code.message());
    }
    written.push_back(name);
  }
  const bool usable = checkpoint::file_exists(source.path + "/tokenizer.json") ||
                      checkpoint::file_exists(source.path + "/tokenizer.model") ||
                      checkpoint::file_exists(source.path + "/vocab.json");
  if (!usable) {
    source.remarks.push_back(
        fmt::format("no tokenizer: {} has no tokenizer files; {}", source.path, kNoTokenizer));
  }
  return written;
}

Result<std::vector<std::string>> write_gguf_files(Source& source, const std::string& folder) {
  const Result<TokenizerFiles> made = gguf_tokenizer_files(*source.gguf);
  if (!made.ok()) {
    return made.error();
  }
  std::vector<std::string> written;
  for (const TextFile& file : made->files) {
    if (Result<void> done = write_file(folder + "/" + file.name, file.content); !done.ok()) {
      return done.error();
    }
    written.push_back(file.name);
  }
  if (!made->remark.empty()) {
    source.remarks.push_back(fmt::format("no tokenizer: {}; {}", made->remark, kNoTokenizer));
  }
  return written;
}

// The folder's own settings, or the ids that are known, so that nothing else is needed later.
OrderedJson generation_config(const Source& source) {
  const models::ModelConfig& config = source.config;
  OrderedJson json = OrderedJson::object();
  if (config.bos_token_id >= 0) {
    json["bos_token_id"] = config.bos_token_id;
  }
  if (!config.eos_token_ids.empty()) {
    json["eos_token_id"] = config.eos_token_ids;
  }
  if (config.pad_token_id >= 0) {
    json["pad_token_id"] = config.pad_token_id;
  }
  return json;
}

}  // namespace

Result<std::vector<std::string>> write_text_files(Source& source, const std::string& folder) {
  Result<std::vector<std::string>> written =
      source.gguf ? write_gguf_files(source, folder) : copy_files(source, folder);
  if (!written.ok()) {
    return written;
  }
  const std::string generation = source.generation ? dump_json(*source.generation, 2)
                                                   : dump_json(generation_config(source), 2);
  if (Result<void> done = write_file(folder + "/" + kGenerationName, generation + "\n");
      !done.ok()) {
    return done.error();
  }
  written->push_back(kGenerationName);
  return written;
}

}  // namespace zonda::convert
