// SPDX-License-Identifier: Apache-2.0
#include "api/source.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"

namespace zonda::api {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool has_gguf(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".gguf") {
      return true;
    }
  }
  return false;
}

Result<ModelSource> folder_source(const std::string& path) {
  const fs::path folder(path);
  const auto found = [&](SourceKind kind) { return ModelSource{path, kind, path}; };
  if (is_there(folder / "rank0.engine")) {
    return found(SourceKind::kEngine);
  }
  if (!is_there(folder / "config.json")) {
    if (has_gguf(folder)) {
      return found(SourceKind::kGguf);
    }
    return unsupported(
        "[load] {} holds no model: no rank0.engine, no config.json and no .gguf file.", path);
  }
  Result<Json> config = parse_json_file((folder / "config.json").string());
  if (!config) {
    return config.error();
  }
  if (config->is_object() && config->contains("architecture")) {
    return found(SourceKind::kCheckpoint);
  }
  if (config->is_object() &&
      (config->contains("architectures") || config->contains("model_type"))) {
    return found(SourceKind::kModelFolder);
  }
  return unsupported(
      "[load] {}/config.json names no model: it has neither architectures nor model_type (Hugging "
      "Face) nor architecture (checkpoint).",
      path);
}

// One line a file: name, bytes, time of change.
void describe_file(const fs::path& file, std::string& out) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  const auto time = fs::last_write_time(file, error).time_since_epoch().count();
  out += fmt::format("{}\n{} {}\n", file.filename().string(), size, time);
}

}  // namespace

const char* source_kind_name(SourceKind kind) {
  switch (kind) {
    case SourceKind::kModelFolder:
      return "model folder";
    case SourceKind::kGguf:
      return "GGUF file";
    case SourceKind::kCheckpoint:
      return "checkpoint";
    case SourceKind::kEngine:
      return "engine";
  }
  return "unknown";
}

Result<ModelSource> find_source(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return not_found("[load] {} does not exist.", path);
  }
  if (fs::is_directory(status)) {
    return folder_source(path);
  }
  const fs::path file(path);
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  if (file.extension() == ".gguf") {
    return ModelSource{path, SourceKind::kGguf, folder};
  }
  if (file.extension() == ".engine") {
    return ModelSource{path, SourceKind::kEngine, folder};
  }
  return unsupported("[load] {} is neither a folder nor a .gguf or .engine file.", path);
}

Result<std::string> source_fingerprint(const ModelSource& source, const std::string& salt) {
  std::error_code error;
  const fs::path path = fs::canonical(source.path, error);
  if (error) {
    return io_error("[load] cannot resolve {}: {}.", source.path, error.message());
  }
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      if (entry.is_regular_file(error)) {
        files.push_back(entry.path());
      }
    }
    if (error) {
      return io_error("[load] cannot list {}: {}.", source.path, error.message());
    }
  } else {
    files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  std::string text = path.string() + "\n" + salt + "\n";
  for (const fs::path& file : files) {
    describe_file(file, text);
  }
  return to_hex(hash128(std::as_bytes(std::span(text)))).substr(0, 16);
}

std::string source_name(const ModelSource& source) {
  fs::path path = fs::path(source.path).lexically_normal();
  if (!path.has_filename()) {
    path = path.parent_path();
  }
  std::string name =
      source.kind == SourceKind::kGguf ? path.stem().string() : path.filename().string();
  for (char& c : name) {
    const bool kept =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
    c = kept ? c : '_';
  }
  constexpr size_t kMaxName = 60;
  return name.empty() || name[0] == '.' ? "model" : name.substr(0, kMaxName);
}

}  // namespace zonda::api
