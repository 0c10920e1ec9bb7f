// Reads the bytes of a GGUF file front to back; every step checks what is left.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace zonda::checkpoint {

// Names in files are any bytes; messages show only plain ones.
inline std::string printable(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 100)) {
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text;
}

class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> image, const std::string& path)
      : image_(image), path_(path) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return image_.size() - position_; }

  Error truncated(std::string_view what) const {
    return corrupt("[gguf] {}: the file ends at byte {} inside {}.", path_, image_.size(), what);
  }

  template <typename T>
  Result<T> number(std::string_view what) {
    if (left() < sizeof(T)) {
      return truncated(what);
    }
    T value;
    std::memcpy(&value, image_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  Result<std::string_view> string(std::string_view what, uint64_t limit) {
    const Result<uint64_t> length = number<uint64_t>(what);
    if (!length.ok()) {
      return length.error();
    }
    if (*length > limit) {
      return corrupt("[gguf] {}: {} has a length of {} bytes, above the limit {}.", path_, what,
                     *length, limit);
    }
    if (*length > left()) {
      return truncated(what);
    }
    const std::string_view text(reinterpret_cast<const char*>(image_.data()) + position_, *length);
    position_ += *length;
    return text;
  }

  const std::string& path() const { return path_; }

 private:
  std::span<const std::byte> image_;
  const std::string& path_;
  uint64_t position_ = 0;
};

}  // namespace zonda::checkpoint
