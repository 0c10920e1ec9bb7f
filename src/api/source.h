// Which form of a model a path holds, and what identifies its content.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "zonda/error.h"

namespace zonda::api {

enum class SourceKind : uint8_t {
  kModelFolder,  // Hugging Face: config.json with model_type or architectures
  kGguf,         // a .gguf file, or a folder with one and no config.json
  kCheckpoint,   // config.json with "architecture", and rank0.safetensors
  kEngine,       // a folder with rank0.engine, or the file
};
const char* source_kind_name(SourceKind kind);

struct ModelSource {
  std::string path;  // as given
  SourceKind kind = SourceKind::kModelFolder;
  std::string folder;  // where files beside the weights are: the folder itself, or the file's
};

// kNotFound if nothing is there, kUnsupported with what was looked for.
Result<ModelSource> find_source(const std::string& path);

// 16 hexadecimal digits over path, size and time of change of every file of the source, and
// `salt`.
Result<std::string> source_fingerprint(const ModelSource& source, const std::string& salt);

// A short name for folders of the cache: the last part of the path, letters, digits, '.', '-', '_'.
std::string source_name(const ModelSource& source);

}  // namespace zonda::api
