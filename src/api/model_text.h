// What a model has beside its weights: tokenizer, chat template and generation settings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/generation_settings.h"
#include "api/source.h"
#include "text/segment.h"
#include "text/tokenizer.h"
#include "zonda/llm.h"

namespace zonda::api {

// The files' contents; empty if a file is not there.
struct TextFiles {
  std::string tokenizer;         // tokenizer.json
  std::string tokenizer_config;  // tokenizer_config.json
  std::string chat_template;     // chat_template.jinja
  std::string generation;        // generation_config.json
  std::string folder;            // where they are from, for messages
};

// Of a folder, or made of the metadata of a GGUF file.
Result<TextFiles> read_text_files(const ModelSource& source);
Result<TextFiles> read_text_files(const std::string& folder);

// A conversation as the model's template writes it. Immutable.
class ChatRenderer {
 public:
  virtual ~ChatRenderer() = default;
  virtual Result<std::vector<text::Segment>> render(const ChatPrompt& prompt) const = 0;
};

struct ModelText {
  std::unique_ptr<text::Tokenizer> tokenizer;  // null if there is none
  std::unique_ptr<ChatRenderer> chat;          // null if there is no template
  GenerationSettings generation;
  std::string folder;
};
Result<ModelText> load_model_text(const TextFiles& files);

}  // namespace zonda::api
