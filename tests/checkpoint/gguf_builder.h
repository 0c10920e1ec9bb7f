// Builds the bytes of GGUF files, good ones and, field by field, bad ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/gguf_blocks.h"

namespace zonda::checkpoint {

template <typename T>
void append_value(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
inline void append_text(std::string& out, std::string_view text) {
  append_value<uint64_t>(out, text.size());
  out.append(text);
}

class GgufBuilder {
 public:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // dims[0] is the length of a row
    uint32_t type = 0;
    std::string bytes;
    int64_t offset = -1;  // -1: behind the one before, aligned
  };

  // Fields that a test may spoil.
  std::string magic = "GGUF";
  uint32_t version = 3;
  int64_t tensor_count = -1;    // -1: the true one
  int64_t metadata_count = -1;  // -1: the true one
  uint64_t alignment = 32;
  std::vector<Tensor> tensors;

  GgufBuilder& raw(std::string_view key, uint32_t type, std::string_view value) {
    std::string entry;
    append_text(entry, key);
    append_value<uint32_t>(entry, type);
    entries_.push_back(entry.append(value));
    return *this;
  }
  template <typename T>
  GgufBuilder& number(std::string_view key, uint32_t type, T value) {
    std::string bytes;
    append_value<T>(bytes, value);
    return raw(key, type, bytes);
  }
  GgufBuilder& u32(std::string_view key, uint32_t value) { return number(key, 4, value); }
  GgufBuilder& f32(std::string_view key, float value) { return number(key, 6, value); }
  GgufBuilder& boolean(std::string_view key, bool value) {
    return number<uint8_t>(key, 7, value ? 1 : 0);
  }
  GgufBuilder& string(std::string_view key, std::string_view value) {
    std::string bytes;
    append_text(bytes, value);
    return raw(key, 8, bytes);
  }
  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes;
    append_value<uint32_t>(bytes, 8);
    append_value<uint64_t>(bytes, values.size());
    for (const std::string& value : values) {
      append_text(bytes, value);
    }
    return raw(key, 9, bytes);
  }
  GgufBuilder& integers(std::string_view key, const std::vector<int32_t>& values) {
    std::string bytes;
    append_value<uint32_t>(bytes, 5);
    append_value<uint64_t>(bytes, values.size());
    for (const int32_t value : values) {
      append_value<int32_t>(bytes, value);
    }
    return raw(key, 9, bytes);
  }
  GgufBuilder& tensor(std::string name, std::vector<uint64_t> dims, GgmlType type,
                      std::string bytes) {
    tensors.push_back(
        {std::move(name), std::move(dims), static_cast<uint32_t>(type), std::move(bytes)});
    return *this;
  }
  void remove(std::string_view key) {
    std::string head;
    append_text(head, key);
    std::erase_if(entries_, [&](const std::string& entry) { return entry.starts_with(head); });
  }

  std::string build() const {
    std::string out = magic;
    append_value<uint32_t>(out, version);
    append_value<uint64_t>(out, tensor_count < 0 ? tensors.size() : tensor_count);
    append_value<uint64_t>(out, metadata_count < 0 ? entries_.size() : metadata_count);
    for (const std::string& entry : entries_) {
      out += entry;
    }
    std::string data;
    for (const Tensor& tensor : tensors) {
      pad(data);
      append_text(out, tensor.name);
      append_value<uint32_t>(out, static_cast<uint32_t>(tensor.dims.size()));
      for (const uint64_t dim : tensor.dims) {
        append_value<uint64_t>(out, dim);
      }
      append_value<uint32_t>(out, tensor.type);
      append_value<uint64_t>(out, tensor.offset < 0 ? data.size() : tensor.offset);
      data += tensor.bytes;
    }
    pad(out);
    return out + data;
  }

 private:
  void pad(std::string& bytes) const {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
  }
  std::vector<std::string> entries_;
};

}  // namespace zonda::checkpoint
