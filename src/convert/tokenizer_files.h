// Tokenizer, chat template and generation settings, put beside the weights of a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "convert/source.h"

namespace zonda::convert {

struct TextFile {
  std::string name;  // "tokenizer.json"
  std::string content;
};

struct TokenizerFiles {
  std::vector<TextFile> files;  // empty if there is no tokenizer, or none that can be written
  std::string remark;           // why not
};

// tokenizer.json, tokenizer_config.json and chat_template.jinja from GGUF metadata, as Hugging
// Face's libraries read them. kCorrupt if the metadata contradicts itself.
Result<TokenizerFiles> gguf_tokenizer_files(const checkpoint::GgufFile& file);

// Writes into `folder` what the source has, and generation_config.json; names of the files written
// are returned. A missing tokenizer is noted in source.remarks.
Result<std::vector<std::string>> write_text_files(Source& source, const std::string& folder);

}  // namespace zonda::convert
