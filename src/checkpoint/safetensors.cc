// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/json.h"

namespace zonda::checkpoint {
namespace {

constexpr size_t kMaxRank = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array kDTypeNames = {
    DTypeName{DType::kFloat64, "F64"}, DTypeName{DType::kFloat32, "F32"},
    DTypeName{DType::kFloat16, "F16"}, DTypeName{DType::kBFloat16, "BF16"},
    DTypeName{DType::kInt64, "I64"},   DTypeName{DType::kInt32, "I32"},
    DTypeName{DType::kInt16, "I16"},   DTypeName{DType::kInt8, "I8"},
    DTypeName{DType::kUInt64, "U64"},  DTypeName{DType::kUInt32, "U32"},
    DTypeName{DType::kUInt16, "U16"},  DTypeName{DType::kUInt8, "U8"},
    DTypeName{DType::kBool, "BOOL"},   DTypeName{DType::kFloat8E4M3, "F8_E4M3"},
};

std::optional<DType> find_dtype(std::string_view name) {
  for (const DTypeName& entry : kDTypeNames) {
    if (entry.name == name) {
      return entry.dtype;
    }
  }
  return std::nullopt;
}

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string_view name;
};

// Where messages point to.
struct Place {
  const std::string& path;
  const std::string& tensor;
};

Result<std::vector<int64_t>> read_shape(const Json& entry, const Place& at) {
  const auto found = entry.find("shape");
  if (found == entry.end() || !found->is_array()) {
    return corrupt("[safetensors] {}: tensor {} has no array \"shape\".", at.path, at.tensor);
  }
  if (found->size() > kMaxRank) {
    return corrupt("[safetensors] {}: tensor {} has {} dimensions, at most {} are allowed.",
                   at.path, at.tensor, found->size(), kMaxRank);
  }
  std::vector<int64_t> shape;
  for (const Json& dim : *found) {
    if (!dim.is_number_unsigned() ||
        dim.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return corrupt(
          "[safetensors] {}: tensor {} has the dimension {}, expected an integer of 0 "
          "to 2^63 - 1.",
          at.path, at.tensor, dump_json(dim));
    }
    shape.push_back(dim.get<int64_t>());
  }
  return shape;
}

Result<DType> read_dtype(const Json& entry, const Place& at) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string()) {
    return corrupt("[safetensors] {}: tensor {} has no string \"dtype\".", at.path, at.tensor);
  }
  const auto& name = found->get_ref<const std::string&>();
  const std::optional<DType> dtype = find_dtype(name);
  if (!dtype) {
    return unsupported("[safetensors] {}: tensor {} has the unknown dtype {}.", at.path, at.tensor,
                       dump_json(*found));
  }
  return *dtype;
}

Result<Range> read_offsets(const Json& entry, uint64_t data_bytes, const Place& at) {
  const auto found = entry.find("data_offsets");
  if (found == entry.end() || !found->is_array() || found->size() != 2 ||
      !(*found)[0].is_number_unsigned() || !(*found)[1].is_number_unsigned()) {
    return corrupt("[safetensors] {}: tensor {} has no \"data_offsets\" of two integers >= 0.",
                   at.path, at.tensor);
  }
  const Range range{(*found)[0].get<uint64_t>(), (*found)[1].get<uint64_t>(), at.tensor};
  if (range.end < range.begin) {
    return corrupt("[safetensors] {}: tensor {} ends at byte {} before its begin {}.", at.path,
                   at.tensor, range.end, range.begin);
  }
  if (range.end > data_bytes) {
    return corrupt(
        "[safetensors] {}: tensor {} ends at byte {} of {} data bytes: out of range or "
        "the file is truncated.",
        at.path, at.tensor, range.end, data_bytes);
  }
  return range;
}

// Bytes of shape x dtype; nullopt if the product overflows.
std::optional<uint64_t> shape_bytes(const std::vector<int64_t>& shape, DType dtype) {
  uint64_t bytes = static_cast<uint64_t>(dtype_size(dtype));
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

Result<TensorView> read_tensor(const Json& entry, std::span<const std::byte> data,
                               const Place& at) {
  if (!entry.is_object()) {
    return corrupt("[safetensors] {}: the entry of tensor {} is not an object.", at.path,
                   at.tensor);
  }
  for (const auto& [key, unused] : entry.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      return corrupt("[safetensors] {}: tensor {} has the unknown field {}.", at.path, at.tensor,
                     dump_json(Json(key)));
    }
  }
  const Result<DType> dtype = read_dtype(entry, at);
  if (!dtype.ok()) {
    return dtype.error();
  }
  Result<std::vector<int64_t>> shape = read_shape(entry, at);
  if (!shape.ok()) {
    return shape.error();
  }
  const Result<Range> range = read_offsets(entry, data.size(), at);
  if (!range.ok()) {
    return range.error();
  }
  const std::optional<uint64_t> expected = shape_bytes(*shape, *dtype);
  if (!expected) {
    return corrupt("[safetensors] {}: the bytes of tensor {} of shape {} overflow 64 bits.",
                   at.path, at.tensor, shape_text(*shape));
  }
  if (range->end - range->begin != *expected) {
    return corrupt("[safetensors] {}: tensor {} of shape {} and dtype {} needs {} bytes, found {}.",
                   at.path, at.tensor, shape_text(*shape), safetensors_dtype_name(*dtype),
                   *expected, range->end - range->begin);
  }
  return TensorView{*dtype, std::move(*shape),
                    data.subspan(range->begin, range->end - range->begin)};
}

Result<void> read_metadata(const Json& entry, const std::string& path, MetadataMap& metadata) {
  if (!entry.is_object()) {
    return corrupt("[safetensors] {}: {} is not an object.", path, kMetadataKey);
  }
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) {
      return corrupt("[safetensors] {}: {} entry {} is not a string.", path, kMetadataKey,
                     dump_json(Json(key)));
    }
    metadata.emplace(key, value.get<std::string>());
  }
  return {};
}

// The tensors must cover the data without overlap, hole or rest.
Result<void> check_cover(const TensorMap& tensors, std::span<const std::byte> data,
                         const std::string& path) {
  std::vector<Range> ranges;
  for (const auto& [name, tensor] : tensors) {
    const uint64_t begin = static_cast<uint64_t>(tensor.bytes.data() - data.data());
    ranges.push_back({begin, begin + tensor.bytes.size(), name});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t position = 0;
  std::string_view previous = "(none)";
  for (const Range& range : ranges) {
    if (range.begin < position) {
      return corrupt("[safetensors] {}: tensors {} and {} overlap at data byte {}.", path, previous,
                     range.name, range.begin);
    }
    if (range.begin > position) {
      return corrupt("[safetensors] {}: data bytes {} to {} before tensor {} belong to no tensor.",
                     path, position, range.begin, range.name);
    }
    position = range.end;
    previous = range.name;
  }
  if (position != data.size()) {
    return corrupt("[safetensors] {}: {} bytes after the last tensor belong to no tensor.", path,
                   data.size() - position);
  }
  return {};
}

// The header's text, without its length field.
Result<std::string_view> header_text(std::span<const std::byte> image, const std::string& path) {
  if (image.size() < 8) {
    return corrupt("[safetensors] {}: {} bytes are too few for the 8-byte header length.", path,
                   image.size());
  }
  uint64_t length = 0;
  std::memcpy(&length, image.data(), 8);
  if (length > kMaxSafetensorsHeader) {
    return corrupt("[safetensors] {}: header length {} is above the limit {}.", path, length,
                   kMaxSafetensorsHeader);
  }
  if (length > image.size() - 8) {
    return corrupt("[safetensors] {}: header length {} is beyond the file's {} bytes.", path,
                   length, image.size());
  }
  const std::string_view text(reinterpret_cast<const char*>(image.data()) + 8, length);
  if (text.empty() || text.front() != '{') {
    return corrupt("[safetensors] {}: the header does not start with '{{'.", path);
  }
  return text;
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  }
  return text + "]";
}

std::string_view safetensors_dtype_name(DType dtype) {
  for (const DTypeName& entry : kDTypeNames) {
    if (entry.dtype == dtype) {
      return entry.name;
    }
  }
  CHECK(false);
}

Result<void> parse_safetensors(std::span<const std::byte> image, const std::string& path,
                               TensorMap& tensors, MetadataMap& metadata) {
  const Result<std::string_view> text = header_text(image, path);
  if (!text.ok()) {
    return text.error();
  }
  const Result<Json> header = parse_json(*text, path);
  if (!header.ok()) {
    return header.error();
  }
  const std::span<const std::byte> data = image.subspan(8 + text->size());
  for (const auto& [name, entry] : header->items()) {
    if (name == kMetadataKey) {
      if (Result<void> read = read_metadata(entry, path, metadata); !read.ok()) {
        return read;
      }
      continue;
    }
    Result<TensorView> tensor = read_tensor(entry, data, {path, name});
    if (!tensor.ok()) {
      return tensor.error();
    }
    tensors.emplace(name, std::move(*tensor));
  }
  return check_cover(tensors, data, path);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped.ok()) {
    return mapped.error();
  }
  SafetensorsFile file;
  file.file_ = std::move(*mapped);
  Result<void> parsed = parse_safetensors(file.file_.bytes(), path, file.tensors_, file.metadata_);
  if (!parsed.ok()) {
    return parsed.error();
  }
  return file;
}

void SafetensorsFile::release(std::span<const std::byte> bytes) const {
  file_.release(static_cast<size_t>(bytes.data() - file_.bytes().data()), bytes.size());
}

}  // namespace zonda::checkpoint
