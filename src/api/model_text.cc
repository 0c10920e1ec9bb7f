// SPDX-License-Identifier: Apache-2.0
#include "api/model_text.h"

#include "api/chat_renderer.h"
#include "base/error.h"
#include "base/file.h"
#include "convert/tokenizer_files.h"

namespace zonda::api {
namespace {

// Empty if there is no such file.
Result<std::string> optional_file(const std::string& path) {
  Result<std::string> text = read_file(path);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return std::string{};
  }
  return text;
}

Result<TextFiles> gguf_text_files(const ModelSource& source) {
  Result<convert::Source> opened = convert::open_source(source.path);
  if (!opened) {
    return opened.error();
  }
  TextFiles files;
  files.folder = source.path;
  if (!opened->gguf) {
    return files;
  }
  Result<convert::TokenizerFiles> made = convert::gguf_tokenizer_files(*opened->gguf);
  if (!made) {
    return made.error();
  }
  for (convert::TextFile& file : made->files) {
    if (file.name == "tokenizer.json") {
      files.tokenizer = std::move(file.content);
    } else if (file.name == "tokenizer_config.json") {
      files.tokenizer_config = std::move(file.content);
    } else if (file.name == "chat_template.jinja") {
      files.chat_template = std::move(file.content);
    }
  }
  return files;
}

}  // namespace

Result<TextFiles> read_text_files(const std::string& folder) {
  TextFiles files;
  files.folder = folder;
  for (auto [name, content] : {std::pair{"tokenizer.json", &files.tokenizer},
                               {"tokenizer_config.json", &files.tokenizer_config},
                               {"chat_template.jinja", &files.chat_template},
                               {"generation_config.json", &files.generation}}) {
    Result<std::string> text = optional_file(folder + "/" + name);
    if (!text) {
      return text.error();
    }
    *content = std::move(*text);
  }
  return files;
}

Result<TextFiles> read_text_files(const ModelSource& source) {
  return source.kind == SourceKind::kGguf ? gguf_text_files(source)
                                          : read_text_files(source.folder);
}

Result<ModelText> load_model_text(const TextFiles& files) {
  ModelText text;
  text.folder = files.folder;
  if (!files.generation.empty()) {
    Result<GenerationSettings> settings =
        parse_generation_settings(files.generation, files.folder + "/generation_config.json");
    if (!settings) {
      return settings.error();
    }
    text.generation = std::move(*settings);
  }
  if (files.tokenizer.empty()) {
    return text;
  }
  Result<std::unique_ptr<text::Tokenizer>> tokenizer =
      text::Tokenizer::from_json(files.tokenizer, files.tokenizer_config);
  if (!tokenizer) {
    return Error{tokenizer.error().code,
                 fmt::format("{} ({})", tokenizer.error().message, files.folder)};
  }
  text.tokenizer = std::move(*tokenizer);
  Result<std::unique_ptr<ChatRenderer>> chat = make_chat_renderer(files);
  if (!chat) {
    return chat.error();
  }
  text.chat = std::move(*chat);
  return text;
}

}  // namespace zonda::api
