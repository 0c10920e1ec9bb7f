// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "checkpoint/folder.h"

namespace zonda::checkpoint {
namespace {

constexpr std::string_view kWeightEnding = ".weight";

std::optional<WeightFormat> float_format(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return WeightFormat::kFloat32;
    case DType::kFloat16:
      return WeightFormat::kFloat16;
    case DType::kBFloat16:
      return WeightFormat::kBFloat16;
    default:
      return std::nullopt;
  }
}

DType stored_dtype(const WeightType& type) {
  switch (type.format) {
    case WeightFormat::kFloat32:
      return DType::kFloat32;
    case WeightFormat::kFloat16:
      return DType::kFloat16;
    case WeightFormat::kBFloat16:
      return DType::kBFloat16;
    case WeightFormat::kInt8:
      return type.has_minimum ? DType::kUInt8 : DType::kInt8;
    case WeightFormat::kInt4:
      return DType::kUInt8;
    case WeightFormat::kFloat8E4M3:
      return DType::kFloat8E4M3;
  }
  CHECK(false);
}

// "X.weight" -> "X.weights_scaling_factor" and the like.
std::string companion(std::string_view name, std::string_view ending) {
  CHECK(name.ends_with(kWeightEnding));
  return std::string(name.substr(0, name.size() - kWeightEnding.size())).append(ending);
}

Result<void> check_aligned(const std::string& folder, std::string_view name,
                           const TensorView& tensor) {
  const auto address = reinterpret_cast<uintptr_t>(tensor.bytes.data());
  if (address % static_cast<uintptr_t>(dtype_size(tensor.dtype)) != 0) {
    return corrupt("[checkpoint] {}: tensor {} is not aligned to its dtype {}.", folder, name,
                   safetensors_dtype_name(tensor.dtype));
  }
  return {};
}

Result<void> check_stored(const std::string& folder, const TensorSpec& expected,
                          const TensorView& found) {
  if (found.dtype == expected.dtype && found.shape == expected.shape) {
    return {};
  }
  return corrupt("[checkpoint] {}: tensor {} is {} {}, expected {} {}.", folder, expected.name,
                 safetensors_dtype_name(found.dtype), shape_text(found.shape),
                 safetensors_dtype_name(expected.dtype), shape_text(expected.shape));
}

// A checkpoint that upstream split for several ranks is not one model in one file.
Result<void> check_mapping(const Json& config, const std::string& path) {
  if (!config.is_object()) {
    return corrupt("[checkpoint] {} is not a JSON object.", path);
  }
  const auto mapping = config.find("mapping");
  if (mapping == config.end() || !mapping->is_object()) {
    return {};
  }
  const auto world_size = mapping->find("world_size");
  if (world_size != mapping->end() && *world_size != 1) {
    return unsupported("[checkpoint] {}: mapping.world_size is {}; checkpoints are rank-free (1).",
                       path, dump_json(*world_size));
  }
  return {};
}

bool parse_number(std::string_view text, int64_t& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() && value >= 0;
}

}  // namespace

std::string describe_weight(const WeightType& type) {
  if (!is_integer(type.format)) {
    return {};
  }
  return fmt::format("{},cols={},group={}{}", weight_format_name(type.format), type.cols,
                     type.group_size, type.has_minimum ? ",min" : "");
}

Result<WeightType> parse_weight_description(std::string_view text, int64_t rows) {
  WeightType type{.rows = rows};
  int64_t group_size = -1;
  const std::string_view whole = text;
  bool good = true;
  for (int field = 0; good && !text.empty(); ++field) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (field == 0) {
      const Result<WeightFormat> format = parse_weight_format(word);
      good = format.ok() && is_integer(*format);
      type.format = good ? *format : type.format;
    } else if (word.starts_with("cols=")) {
      good = parse_number(word.substr(5), type.cols);
    } else if (word.starts_with("group=")) {
      good = parse_number(word.substr(6), group_size);
    } else {
      good = word == "min";
      type.has_minimum = true;
    }
  }
  const bool known_group =
      group_size == 0 || group_size == 32 || group_size == 64 || group_size == 128;
  if (!good || type.cols <= 0 || !known_group) {
    return corrupt(
        "[checkpoint] \"{}\" describes no quantised weight; expected "
        "\"int8|int4,cols=N,group=0|32|64|128[,min]\".",
        whole);
  }
  type.group_size = static_cast<int32_t>(group_size);
  return type;
}

StoredWeight stored_weight(std::string_view name, const WeightType& type) {
  StoredWeight stored;
  const int64_t row_bytes = type.format == WeightFormat::kInt4 ? (type.cols + 1) / 2 : type.cols;
  stored.data = {std::string(name), stored_dtype(type), {type.rows, row_bytes}};
  if (type.format == WeightFormat::kFloat8E4M3) {
    stored.scales =
        type.per_tensor
            ? TensorSpec{companion(name, ".weights_scaling_factor"), DType::kFloat32, {1}}
            : TensorSpec{companion(name, ".per_channel_scale"), DType::kFloat32, {type.rows}};
    return stored;
  }
  if (!is_quantized(type.format)) {
    return stored;
  }
  stored.description = describe_weight(type);
  if (type.group_size == 0) {
    stored.scales = {companion(name, ".per_channel_scale"), DType::kFloat16, {type.rows}};
  } else {
    stored.scales = {
        companion(name, ".weights_scaling_factor"), DType::kFloat16, {type.rows, type.groups()}};
  }
  if (type.has_minimum) {
    stored.minima = {
        companion(name, ".weights_minimum"), DType::kFloat16, {type.rows, type.groups()}};
  }
  return stored;
}

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  const std::string config_path = folder + "/config.json";
  Result<Json> config = parse_json_file(config_path);
  if (!config.ok()) {
    return config.error();
  }
  if (Result<void> checked = check_mapping(*config, config_path); !checked.ok()) {
    return checked.error();
  }
  checkpoint.config_ = std::move(*config);
  const std::vector<std::string> paths = files_with_ending(folder, ".safetensors");
  if (paths.empty()) {
    return not_found("[checkpoint] {} has no *.safetensors file.", folder);
  }
  Result<SafetensorsSet> files = SafetensorsSet::open_files(paths);
  if (!files.ok()) {
    return files.error();
  }
  checkpoint.files_ = std::move(*files);
  return checkpoint;
}

Result<TensorView> Checkpoint::tensor(std::string_view name) const {
  const TensorView* found = files_.find(name);
  if (found == nullptr) {
    return not_found("[checkpoint] {} has no tensor {}.", folder_, name);
  }
  if (Result<void> aligned = check_aligned(folder_, name, *found); !aligned.ok()) {
    return aligned.error();
  }
  return *found;
}

Result<WeightView> Checkpoint::weight(std::string_view name) const {
  if (!name.ends_with(kWeightEnding)) {
    return invalid_argument("[checkpoint] weight name {} does not end in \"{}\".", name,
                            kWeightEnding);
  }
  const Result<TensorView> data = tensor(name);
  if (!data.ok()) {
    return data.error();
  }
  if (data->shape.size() != 2) {
    return corrupt("[checkpoint] {}: tensor {} has shape {}, expected a matrix.", folder_, name,
                   shape_text(data->shape));
  }
  WeightView view;
  view.data = data->bytes.data();
  if (const std::optional<WeightFormat> format = float_format(data->dtype)) {
    view.type = {.format = *format, .rows = data->shape[0], .cols = data->shape[1]};
    return view;
  }
  return data->dtype == DType::kFloat8E4M3 ? fp8_weight(name, *data)
                                           : quantized_weight(name, *data);
}

Result<WeightView> Checkpoint::fp8_weight(std::string_view name, const TensorView& data) const {
  WeightType type{WeightFormat::kFloat8E4M3, data.shape[0], data.shape[1], 0, false};
  type.per_tensor = !has(companion(name, ".per_channel_scale"));
  const TensorSpec expected = *stored_weight(name, type).scales;
  const Result<TensorView> scales = tensor(expected.name);
  if (!scales.ok()) {
    return scales.error().code == ErrorCode::kNotFound
               ? corrupt("[checkpoint] {}: tensor {} is F8_E4M3 but has neither {} nor {}.",
                         folder_, name, companion(name, ".per_channel_scale"), expected.name)
               : scales.error();
  }
  if (Result<void> checked = check_stored(folder_, expected, *scales); !checked.ok()) {
    return checked.error();
  }
  WeightView view{type, data.bytes.data()};
  view.row_scales = reinterpret_cast<const float*>(scales->bytes.data());
  return view;
}

Result<const uint16_t*> Checkpoint::halves(const TensorSpec& spec) const {
  const Result<TensorView> found = tensor(spec.name);
  if (!found.ok()) {
    return found.error();
  }
  if (Result<void> checked = check_stored(folder_, spec, *found); !checked.ok()) {
    return checked.error();
  }
  return reinterpret_cast<const uint16_t*>(found->bytes.data());
}

Result<WeightView> Checkpoint::quantized_weight(std::string_view name,
                                                const TensorView& data) const {
  const MetadataMap& metadata = files_.file_of(name).metadata();
  const auto description = metadata.find(name);
  if (description == metadata.end()) {
    return unsupported(
        "[checkpoint] {}: tensor {} is {} but __metadata__ does not describe its "
        "quantisation; convert the model with zonda convert.",
        folder_, name, safetensors_dtype_name(data.dtype));
  }
  Result<WeightType> type = parse_weight_description(description->second, data.shape[0]);
  if (!type.ok()) {
    return corrupt("[checkpoint] {}: tensor {}: {}", folder_, name, type.error().message);
  }
  WeightView view{*type, data.bytes.data(), nullptr, nullptr};
  const StoredWeight expected = stored_weight(name, view.type);
  if (Result<void> checked = check_stored(folder_, expected.data, data); !checked.ok()) {
    return checked.error();
  }
  const Result<const uint16_t*> scales = halves(*expected.scales);
  if (!scales.ok()) {
    return scales.error();
  }
  view.scales = *scales;
  if (expected.minima) {
    const Result<const uint16_t*> minima = halves(*expected.minima);
    if (!minima.ok()) {
      return minima.error();
    }
    view.minima = *minima;
  }
  return view;
}

Result<std::span<const float>> Checkpoint::vector(std::string_view name) const {
  const Result<TensorView> found = tensor(name);
  if (!found.ok()) {
    return found.error();
  }
  if (found->dtype != DType::kFloat32 || found->shape.size() != 1) {
    return corrupt("[checkpoint] {}: tensor {} is {} {}, expected an F32 vector.", folder_, name,
                   safetensors_dtype_name(found->dtype), shape_text(found->shape));
  }
  return std::span(reinterpret_cast<const float*>(found->bytes.data()),
                   static_cast<size_t>(found->shape[0]));
}

void Checkpoint::release(std::string_view name) const {
  const auto release_one = [this](std::string_view one) {
    if (const TensorView* found = files_.find(one)) {
      files_.file_of(one).release(found->bytes);
    }
  };
  release_one(name);
  if (name.ends_with(kWeightEnding)) {
    for (const std::string_view ending :
         {".weights_scaling_factor", ".per_channel_scale", ".weights_minimum"}) {
      release_one(companion(name, ending));
    }
  }
}

}  // namespace zonda::checkpoint
