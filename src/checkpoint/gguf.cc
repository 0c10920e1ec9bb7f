// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/error.h"
#include "checkpoint/gguf_cursor.h"

namespace zonda::checkpoint {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxEntries = 1u << 20;      // metadata keys, and tensors
constexpr uint64_t kMaxArrayValues = 1u << 22;  // of all arrays together
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
constexpr uint32_t kMaxDims = 4;
constexpr int kMaxArrayDepth = 4;
constexpr std::string_view kAlignmentKey = "general.alignment";

enum class ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

class Parser {
 public:
  Parser(std::span<const std::byte> image, const std::string& path, GgufMetadata& metadata,
         GgufTensors& tensors)
      : image_(image), reader_(image, path), metadata_(metadata), tensors_(tensors) {}

  Result<void> parse() {
    if (Result<void> done = read_header(); !done.ok()) {
      return done;
    }
    for (uint64_t i = 0; i < metadata_count_; ++i) {
      if (Result<void> done = read_entry(i); !done.ok()) {
        return done;
      }
    }
    if (Result<void> done = read_alignment(); !done.ok()) {
      return done;
    }
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      if (Result<void> done = read_tensor_info(i); !done.ok()) {
        return done;
      }
    }
    return place_tensors();
  }

 private:
  struct Info {
    std::string name;
    GgufTensor tensor;
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  Result<void> read_header() {
    const Result<uint32_t> magic = reader_.number<uint32_t>("the magic number");
    if (!magic.ok()) {
      return magic.error();
    }
    if (*magic != kMagic) {
      return corrupt("[gguf] {} does not start with \"GGUF\".", reader_.path());
    }
    const Result<uint32_t> version = reader_.number<uint32_t>("the version");
    if (!version.ok()) {
      return version.error();
    }
    if ((*version & 0xffffu) == 0 && *version != 0) {
      return unsupported("[gguf] {} is big-endian; little-endian is read.", reader_.path());
    }
    if (*version != 2 && *version != 3) {
      return unsupported("[gguf] {} has version {}; 2 and 3 are read.", reader_.path(), *version);
    }
    return read_counts();
  }

  Result<void> read_counts() {
    const Result<uint64_t> tensors = reader_.number<uint64_t>("the tensor count");
    if (!tensors.ok()) {
      return tensors.error();
    }
    const Result<uint64_t> entries = reader_.number<uint64_t>("the metadata count");
    if (!entries.ok()) {
      return entries.error();
    }
    if (*tensors > kMaxEntries) {
      return corrupt("[gguf] {}: tensor count {} is above the limit {}.", reader_.path(), *tensors,
                     kMaxEntries);
    }
    if (*entries > kMaxEntries) {
      return corrupt("[gguf] {}: metadata count {} is above the limit {}.", reader_.path(),
                     *entries, kMaxEntries);
    }
    tensor_count_ = *tensors;
    metadata_count_ = *entries;
    return {};
  }

  Result<void> read_entry(uint64_t index) {
    const Result<std::string_view> key =
        reader_.string(fmt::format("metadata key {}", index), kMaxKeyBytes);
    if (!key.ok()) {
      return key.error();
    }
    const std::string what = fmt::format("metadata {}", printable(*key));
    const Result<uint32_t> type = reader_.number<uint32_t>(what);
    if (!type.ok()) {
      return type.error();
    }
    Result<GgufValue> value = read_value(*type, what, 0);
    if (!value.ok()) {
      return value.error();
    }
    if (!metadata_.emplace(*key, std::move(*value)).second) {
      return corrupt("[gguf] {}: {} appears twice.", reader_.path(), what);
    }
    return {};
  }

  // The stored T as the wider W.
  template <typename T, typename W>
  Result<GgufValue> widened(const std::string& what) {
    const Result<T> value = reader_.number<T>(what);
    if (!value.ok()) {
      return value.error();
    }
    return GgufValue{static_cast<W>(*value)};
  }

  Result<GgufValue> read_value(uint32_t type, const std::string& what, int depth) {
    switch (static_cast<ValueType>(type)) {
      case ValueType::kUint8:
        return widened<uint8_t, uint64_t>(what);
      case ValueType::kInt8:
        return widened<int8_t, int64_t>(what);
      case ValueType::kUint16:
        return widened<uint16_t, uint64_t>(what);
      case ValueType::kInt16:
        return widened<int16_t, int64_t>(what);
      case ValueType::kUint32:
        return widened<uint32_t, uint64_t>(what);
      case ValueType::kInt32:
        return widened<int32_t, int64_t>(what);
      case ValueType::kFloat32:
        return widened<float, double>(what);
      case ValueType::kUint64:
        return widened<uint64_t, uint64_t>(what);
      case ValueType::kInt64:
        return widened<int64_t, int64_t>(what);
      case ValueType::kFloat64:
        return widened<double, double>(what);
      case ValueType::kBool:
        return read_bool(what);
      case ValueType::kString: {
        const Result<std::string_view> text =
            reader_.string(what, std::numeric_limits<uint64_t>::max());
        return text.ok() ? Result<GgufValue>(GgufValue{*text}) : text.error();
      }
      case ValueType::kArray:
        return read_array(what, depth);
    }
    return corrupt("[gguf] {}: {} has the unknown value type {}.", reader_.path(), what, type);
  }

  Result<GgufValue> read_bool(const std::string& what) {
    const Result<uint8_t> value = reader_.number<uint8_t>(what);
    if (!value.ok()) {
      return value.error();
    }
    if (*value > 1) {
      return corrupt("[gguf] {}: {} is a bool of value {}, expected 0 or 1.", reader_.path(), what,
                     *value);
    }
    return GgufValue{*value == 1};
  }

  Result<GgufValue> read_array(const std::string& what, int depth) {
    if (depth >= kMaxArrayDepth) {
      return corrupt("[gguf] {}: {} nests arrays deeper than {}.", reader_.path(), what,
                     kMaxArrayDepth);
    }
    const Result<uint32_t> type = reader_.number<uint32_t>(what);
    if (!type.ok()) {
      return type.error();
    }
    const Result<uint64_t> count = reader_.number<uint64_t>(what);
    if (!count.ok()) {
      return count.error();
    }
    // Every value takes at least one byte.
    if (*count > reader_.left()) {
      return corrupt("[gguf] {}: {} is an array of {} values in the {} bytes that are left.",
                     reader_.path(), what, *count, reader_.left());
    }
    array_values_ += *count;
    if (array_values_ > kMaxArrayValues) {
      return corrupt("[gguf] {}: {} takes the arrays above the limit of {} values.", reader_.path(),
                     what, kMaxArrayValues);
    }
    GgufArray array;
    for (uint64_t i = 0; i < *count; ++i) {
      Result<GgufValue> value = read_value(*type, what, depth + 1);
      if (!value.ok()) {
        return value.error();
      }
      array.values.push_back(std::move(*value));
    }
    return GgufValue{std::move(array)};
  }

  Result<void> read_alignment() {
    const auto found = metadata_.find(kAlignmentKey);
    if (found == metadata_.end()) {
      return {};
    }
    const auto* value = std::get_if<uint64_t>(&found->second.data);
    if (value == nullptr || !std::has_single_bit(*value) || *value > kMaxAlignment) {
      return corrupt("[gguf] {}: {} is not a power of two up to {}.", reader_.path(), kAlignmentKey,
                     kMaxAlignment);
    }
    alignment_ = *value;
    return {};
  }

  Result<void> read_tensor_info(uint64_t index) {
    const Result<std::string_view> name =
        reader_.string(fmt::format("the name of tensor {}", index), kMaxKeyBytes);
    if (!name.ok()) {
      return name.error();
    }
    Info info;
    info.name = std::string(*name);
    const std::string what = fmt::format("tensor {}", printable(*name));
    if (Result<void> done = read_dims(what, info); !done.ok()) {
      return done;
    }
    const Result<uint32_t> type = reader_.number<uint32_t>(what);
    if (!type.ok()) {
      return type.error();
    }
    const Result<uint64_t> offset = reader_.number<uint64_t>(what);
    if (!offset.ok()) {
      return offset.error();
    }
    info.offset = *offset;
    if (*offset % alignment_ != 0) {
      return corrupt("[gguf] {}: {} is at offset {}, not a multiple of the alignment {}.",
                     reader_.path(), what, *offset, alignment_);
    }
    if (Result<void> done = size_tensor(what, *type, info); !done.ok()) {
      return done;
    }
    infos_.push_back(std::move(info));
    return {};
  }

  Result<void> read_dims(const std::string& what, Info& info) {
    const Result<uint32_t> count = reader_.number<uint32_t>(what);
    if (!count.ok()) {
      return count.error();
    }
    if (*count == 0 || *count > kMaxDims) {
      return corrupt("[gguf] {}: {} has {} dimensions, expected 1 to {}.", reader_.path(), what,
                     *count, kMaxDims);
    }
    for (uint32_t i = 0; i < *count; ++i) {
      const Result<uint64_t> dim = reader_.number<uint64_t>(what);
      if (!dim.ok()) {
        return dim.error();
      }
      if (*dim == 0 || *dim > uint64_t{std::numeric_limits<int64_t>::max()}) {
        return corrupt("[gguf] {}: {} has the dimension {}, expected 1 to 2^63 - 1.",
                       reader_.path(), what, *dim);
      }
      info.tensor.dims.push_back(static_cast<int64_t>(*dim));
    }
    return {};
  }

  // Type and bytes from the dims; everything overflow-checked.
  Result<void> size_tensor(const std::string& what, uint32_t type, Info& info) {
    const GgmlTypeInfo* known = find_ggml_type(type);
    if (known == nullptr) {
      return unsupported(
          "[gguf] {}: {} has the type {}; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
          "Q8_0, Q4_K, Q5_K and Q6_K are read.",
          reader_.path(), what, ggml_type_name(type));
    }
    const std::vector<int64_t>& dims = info.tensor.dims;
    info.tensor.type = known->type;
    if (dims[0] % known->block_values != 0) {
      return corrupt("[gguf] {}: {} of type {} has rows of {} values, not a multiple of {}.",
                     reader_.path(), what, known->name, dims[0], known->block_values);
    }
    uint64_t size = static_cast<uint64_t>(dims[0] / known->block_values);
    bool overflow = __builtin_mul_overflow(size, static_cast<uint64_t>(known->block_bytes), &size);
    for (size_t i = 1; i < dims.size(); ++i) {
      overflow = overflow || __builtin_mul_overflow(size, static_cast<uint64_t>(dims[i]), &size);
    }
    if (overflow) {
      return corrupt("[gguf] {}: the bytes of {} overflow 64 bits.", reader_.path(), what);
    }
    info.size = size;
    return {};
  }

  // The data begins at the next multiple of the alignment; tensors may not overlap.
  Result<void> place_tensors() {
    const uint64_t begin = (reader_.position() + alignment_ - 1) / alignment_ * alignment_;
    const uint64_t data_bytes = begin <= image_.size() ? image_.size() - begin : 0;
    std::sort(infos_.begin(), infos_.end(), [](const Info& a, const Info& b) {
      return std::tie(a.offset, a.size) < std::tie(b.offset, b.size);
    });
    uint64_t position = 0;
    std::string_view previous = "(none)";
    for (Info& info : infos_) {
      if (info.offset > data_bytes || info.size > data_bytes - info.offset) {
        return corrupt(
            "[gguf] {}: tensor {} needs bytes {} + {} of {} data bytes: out of range or "
            "the file is truncated.",
            reader_.path(), printable(info.name), info.offset, info.size, data_bytes);
      }
      if (info.offset < position) {
        return corrupt("[gguf] {}: tensors {} and {} overlap at data byte {}.", reader_.path(),
                       printable(previous), printable(info.name), info.offset);
      }
      position = info.offset + info.size;
      info.tensor.bytes = image_.subspan(begin + info.offset, info.size);
      const auto [entry, inserted] = tensors_.emplace(info.name, std::move(info.tensor));
      if (!inserted) {
        return corrupt("[gguf] {}: tensor {} appears twice.", reader_.path(), printable(info.name));
      }
      previous = entry->first;
    }
    return {};
  }

  std::span<const std::byte> image_;
  GgufCursor reader_;
  GgufMetadata& metadata_;
  GgufTensors& tensors_;
  std::vector<Info> infos_;
  uint64_t tensor_count_ = 0;
  uint64_t metadata_count_ = 0;
  uint64_t array_values_ = 0;
  uint64_t alignment_ = 32;
};

}  // namespace

int64_t GgufTensor::rows() const {
  int64_t rows = 1;
  for (size_t i = 1; i < dims.size(); ++i) {
    rows *= dims[i];
  }
  return rows;
}

Result<void> parse_gguf(std::span<const std::byte> image, const std::string& path,
                        GgufMetadata& metadata, GgufTensors& tensors) {
  return Parser(image, path, metadata, tensors).parse();
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped.ok()) {
    return mapped.error();
  }
  GgufFile file;
  file.file_ = std::move(*mapped);
  Result<void> parsed = parse_gguf(file.file_.bytes(), path, file.metadata_, file.tensors_);
  if (!parsed.ok()) {
    return parsed.error();
  }
  return file;
}

void GgufFile::release(std::span<const std::byte> bytes) const {
  file_.release(static_cast<size_t>(bytes.data() - file_.bytes().data()), bytes.size());
}

}  // namespace zonda::checkpoint
