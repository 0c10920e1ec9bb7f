// SPDX-License-Identifier: Apache-2.0
#include "convert/source.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/folder.h"
#include "text/utf8.h"

namespace zonda::convert {
namespace {

namespace fs = std::filesystem;
using checkpoint::GgmlType;
using checkpoint::GgufFile;
using checkpoint::SafetensorsSet;
using checkpoint::shape_text;
using checkpoint::TensorView;

std::vector<int64_t> expected_shape(int64_t rows, int64_t cols) {
  return cols == 0 ? std::vector<int64_t>{rows} : std::vector<int64_t>{rows, cols};
}

SourceTensor as_source(GgmlType type, int64_t rows, int64_t cols,
                       std::span<const std::byte> bytes) {
  return cols == 0 ? SourceTensor{type, 1, rows, bytes, {}}
                   : SourceTensor{type, rows, cols, bytes, {}};
}

// Safetensors have their rows first, GGUF the other way round.
std::vector<int64_t> gguf_shape(const checkpoint::GgufTensor& tensor) {
  return {tensor.dims.rbegin(), tensor.dims.rend()};
}

Error wrong_shape(const std::string& file, const std::string& name,
                  const std::vector<int64_t>& expected, const std::vector<int64_t>& found) {
  return corrupt("[convert] {}: tensor {} has shape {}, expected {}.", file, name,
                 shape_text(found), shape_text(expected));
}

std::optional<GgmlType> as_ggml(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return GgmlType::kF32;
    case DType::kFloat16:
      return GgmlType::kF16;
    case DType::kBFloat16:
      return GgmlType::kBF16;
    default:
      return std::nullopt;
  }
}

// Appends the ids of `key`, one or a list, that are not there yet.
Result<void> add_token_ids(const Json& json, const std::string& path, std::vector<int32_t>& ids) {
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null()) {
    return {};
  }
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t{INT32_MAX}) {
      return invalid_argument("[convert] {}: eos_token_id is {}, expected a token id or a list.",
                              path, dump_json(*found));
    }
    const auto token = id.get<int32_t>();
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) {
      ids.push_back(token);
    }
  }
  return {};
}

Result<void> read_generation_config(const std::string& folder, Source& source) {
  const std::string path = folder + "/generation_config.json";
  if (!checkpoint::file_exists(path)) {
    return {};
  }
  Result<Json> generation = parse_json_file(path);
  if (!generation.ok()) {
    return generation.error();
  }
  if (!generation->is_object()) {
    return invalid_argument("[convert] {} is not a JSON object.", path);
  }
  source.generation = std::move(*generation);
  if (Result<void> done = add_token_ids(*source.generation, path, source.config.eos_token_ids);
      !done.ok()) {
    return done;
  }
  return models::validate(source.config);
}

// The class that config.json names.
Result<std::string> architecture_name(const Json& config, const std::string& path) {
  if (!config.is_object()) {
    return invalid_argument("[convert] {} is not a JSON object.", path);
  }
  if (config.contains("architecture") && config.contains("mapping")) {
    return invalid_argument("[convert] {} is that of a checkpoint, which needs no conversion.",
                            path);
  }
  const auto found = config.find("architectures");
  if (found == config.end() || !found->is_array() || found->size() != 1 ||
      !found->front().is_string()) {
    return invalid_argument(
        "[convert] {}: \"architectures\" is {}, expected a list of one class name.", path,
        found == config.end() ? "missing" : dump_json(*found));
  }
  return found->front().get<std::string>();
}

Result<Source> with_config(Source source, const std::string& config_path) {
  Result<models::ModelConfig> config = source.architecture->parse_hf_config(source.hf_config);
  if (!config.ok()) {
    return Error{config.error().code,
                 fmt::format("[convert] {}: {}", config_path, config.error().message)};
  }
  source.config = std::move(*config);
  return source;
}

Result<Source> open_folder(const std::string& folder) {
  Source source;
  source.path = folder;
  const std::string config_path = folder + "/config.json";
  Result<Json> config = parse_json_file(config_path);
  if (!config.ok()) {
    return config.error();
  }
  source.hf_config = std::move(*config);
  const Result<std::string> name = architecture_name(source.hf_config, config_path);
  if (!name.ok()) {
    return name.error();
  }
  const Result<const models::Architecture*> architecture = models::find_architecture(*name);
  if (!architecture.ok()) {
    return architecture.error();
  }
  source.architecture = *architecture;
  Result<Source> parsed = with_config(std::move(source), config_path);
  if (!parsed.ok()) {
    return parsed;
  }
  if (Result<void> done = read_generation_config(folder, *parsed); !done.ok()) {
    return done.error();
  }
  Result<SafetensorsSet> files = SafetensorsSet::open_folder(folder);
  if (!files.ok()) {
    return files.error();
  }
  parsed->safetensors = std::move(*files);
  return parsed;
}

Result<Source> open_gguf(const std::string& path) {
  Source source;
  source.path = path;
  Result<GgufFile> file = GgufFile::open(path);
  if (!file.ok()) {
    return file.error();
  }
  source.gguf = std::move(*file);
  const Result<std::string_view> name = source.gguf->string("general.architecture");
  if (!name.ok()) {
    return name.error();
  }
  const Result<const models::Architecture*> architecture =
      models::find_gguf_architecture(text::to_valid_utf8(*name));
  if (!architecture.ok()) {
    return architecture.error();
  }
  source.architecture = *architecture;
  Result<Json> config = gguf_config(*source.gguf, *source.architecture, source.consumed);
  if (!config.ok()) {
    return config.error();
  }
  source.hf_config = std::move(*config);
  return with_config(std::move(source), path);
}

}  // namespace

bool Source::has(const std::string& name) const {
  return gguf ? gguf->tensors().contains(name) : safetensors.find(name) != nullptr;
}

std::vector<std::string> Source::names() const {
  if (!gguf) {
    return safetensors.names();
  }
  std::vector<std::string> names;
  for (const auto& [name, unused] : gguf->tensors()) {
    names.push_back(name);
  }
  return names;
}

const std::string& Source::file_of(const std::string& name) const {
  return gguf ? gguf->path() : safetensors.file_of(name).path();
}

Result<SourceTensor> Source::tensor(const std::string& name, int64_t rows, int64_t cols) const {
  if (!has(name)) {
    return not_found("[convert] {} has no tensor {}.", path, name);
  }
  const std::vector<int64_t> expected = expected_shape(rows, cols);
  if (gguf) {
    const checkpoint::GgufTensor& found = gguf->tensors().find(name)->second;
    if (gguf_shape(found) != expected) {
      return wrong_shape(path, name, expected, gguf_shape(found));
    }
    return as_source(found.type, rows, cols, found.bytes);
  }
  const TensorView& found = *safetensors.find(name);
  if (found.shape != expected) {
    return wrong_shape(file_of(name), name, expected, found.shape);
  }
  if (found.dtype == DType::kFloat8E4M3 && cols != 0) {
    return fp8_tensor(name, rows, cols);
  }
  const std::optional<GgmlType> type = as_ggml(found.dtype);
  if (!type) {
    return unsupported("[convert] {}: tensor {} has dtype {}, expected F32, F16, BF16 or F8_E4M3.",
                       file_of(name), name, checkpoint::safetensors_dtype_name(found.dtype));
  }
  return as_source(*type, rows, cols, found.bytes);
}

Result<SourceTensor> Source::fp8_tensor(const std::string& name, int64_t rows, int64_t cols) const {
  if (has(name + "_scale_inv")) {
    return unsupported(
        "[convert] {}: {}_scale_inv holds scales of two-dimensional blocks, which are not "
        "supported; only one scale of a tensor or of each row is.",
        file_of(name), name);
  }
  const std::string scale_name = name + "_scale";
  const TensorView* found = safetensors.find(scale_name);
  if (found == nullptr) {
    return corrupt("[convert] {}: tensor {} is F8_E4M3 but there is no {}.", file_of(name), name,
                   scale_name);
  }
  int64_t count = 1;
  for (const int64_t extent : found->shape) {
    count *= extent;
  }
  const bool one_a_row = count == rows && !found->shape.empty() && found->shape[0] == rows;
  if (count != 1 && !one_a_row) {
    return corrupt("[convert] {}: tensor {} has shape {}, expected [], [1], [{}] or [{}, 1].",
                   file_of(scale_name), scale_name, shape_text(found->shape), rows, rows);
  }
  const std::optional<GgmlType> type = as_ggml(found->dtype);
  if (!type) {
    return unsupported("[convert] {}: tensor {} has dtype {}, expected F32, F16 or BF16.",
                       file_of(scale_name), scale_name,
                       checkpoint::safetensors_dtype_name(found->dtype));
  }
  SourceTensor tensor = as_source(GgmlType::kF32, rows, cols, safetensors.find(name)->bytes);
  tensor.fp8_scales.resize(static_cast<size_t>(count));
  checkpoint::dequantize_blocks(*type, found->bytes.data(), count, tensor.fp8_scales.data());
  for (const float scale : tensor.fp8_scales) {
    if (!std::isfinite(scale) || scale < 0.0f) {
      return corrupt("[convert] {}: tensor {} holds {}, expected finite scales, not negative.",
                     file_of(scale_name), scale_name, scale);
    }
  }
  return tensor;
}

bool Source::is_fp8_scale(std::string_view name) const {
  constexpr std::string_view kScale = "_scale";
  if (gguf) {
    return false;
  }
  if (name.ends_with(".weight_scale")) {
    const TensorView* weight = safetensors.find(name.substr(0, name.size() - kScale.size()));
    return weight != nullptr && weight->dtype == DType::kFloat8E4M3;
  }
  return name.ends_with(".weight_scale_inv") || name.ends_with(".input_scale") ||
         name.ends_with(".output_scale") || name.ends_with(".k_scale") ||
         name.ends_with(".v_scale") || name.ends_with(".input_scale_ub");
}

void Source::release(const std::string& name) const {
  if (gguf) {
    gguf->release(gguf->tensors().find(name)->second.bytes);
  } else {
    safetensors.file_of(name).release(safetensors.find(name)->bytes);
  }
}

Result<Source> open_source(const std::string& model_dir) {
  std::error_code code;
  if (!fs::exists(model_dir, code)) {
    return not_found("[convert] {} does not exist.", model_dir);
  }
  if (!fs::is_directory(model_dir, code)) {
    return open_gguf(model_dir);
  }
  if (checkpoint::file_exists(model_dir + "/config.json")) {
    return open_folder(model_dir);
  }
  const std::vector<std::string> files = checkpoint::files_with_ending(model_dir, ".gguf");
  if (files.size() == 1) {
    return open_gguf(files.front());
  }
  if (files.empty()) {
    return not_found("[convert] {} has neither config.json nor a .gguf file.", model_dir);
  }
  return invalid_argument("[convert] {} has {} .gguf files; name one of them.", model_dir,
                          files.size());
}

}  // namespace zonda::convert
