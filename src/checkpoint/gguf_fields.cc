// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <optional>

#include "base/error.h"
#include "checkpoint/gguf.h"

namespace zonda::checkpoint {
namespace {

std::optional<int64_t> as_integer(const GgufValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value.data)) {
    return *number;
  }
  const auto* number = std::get_if<uint64_t>(&value.data);
  if (number == nullptr || *number > uint64_t{std::numeric_limits<int64_t>::max()}) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*number);
}

std::optional<double> as_number(const GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value.data)) {
    return *number;
  }
  if (const std::optional<int64_t> number = as_integer(value)) {
    return static_cast<double>(*number);
  }
  return std::nullopt;
}

template <typename T>
std::optional<T> as_type(const GgufValue& value) {
  const T* found = std::get_if<T>(&value.data);
  return found == nullptr ? std::nullopt : std::optional<T>(*found);
}

// The value of a key through `read`, which gives nullopt for another type.
template <typename T, typename Read>
Result<T> field(const GgufFile& file, std::string_view key, std::string_view expected, Read read) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    return not_found("[gguf] {} has no metadata {}.", file.path(), key);
  }
  if (std::optional<T> value = read(found->second)) {
    return std::move(*value);
  }
  return corrupt("[gguf] {}: metadata {} is not {}.", file.path(), key, expected);
}

template <typename T, typename Read>
Result<std::vector<T>> array_field(const GgufFile& file, std::string_view key,
                                   std::string_view expected, Read read) {
  const auto read_all = [&](const GgufValue& value) -> std::optional<std::vector<T>> {
    const auto* array = std::get_if<GgufArray>(&value.data);
    if (array == nullptr) {
      return std::nullopt;
    }
    std::vector<T> all;
    for (const GgufValue& one : array->values) {
      const auto item = read(one);
      if (!item) {
        return std::nullopt;
      }
      all.push_back(static_cast<T>(*item));
    }
    return all;
  };
  return field<std::vector<T>>(file, key, expected, read_all);
}

}  // namespace

Result<int64_t> GgufFile::integer(std::string_view key) const {
  return field<int64_t>(*this, key, "an integer", as_integer);
}
Result<double> GgufFile::number(std::string_view key) const {
  return field<double>(*this, key, "a number", as_number);
}
Result<bool> GgufFile::boolean(std::string_view key) const {
  return field<bool>(*this, key, "a bool", as_type<bool>);
}
Result<std::string_view> GgufFile::string(std::string_view key) const {
  return field<std::string_view>(*this, key, "a string", as_type<std::string_view>);
}
Result<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  return array_field<std::string_view>(*this, key, "an array of strings",
                                       as_type<std::string_view>);
}
Result<std::vector<int64_t>> GgufFile::integers(std::string_view key) const {
  return array_field<int64_t>(*this, key, "an array of integers", as_integer);
}
Result<std::vector<float>> GgufFile::numbers(std::string_view key) const {
  return array_field<float>(*this, key, "an array of numbers", as_number);
}

}  // namespace zonda::checkpoint
