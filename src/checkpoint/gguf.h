// The GGUF file format, versions 2 and 3, little-endian: metadata and tensors of a mapped file,
// every count and size checked before use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "checkpoint/gguf_blocks.h"
#include "zonda/error.h"

namespace zonda::checkpoint {

struct GgufValue;

struct GgufArray {
  std::vector<GgufValue> values;  // all of one type
};

// Integers of every width widen to 64 bits, float32 to double. Strings point into the file and may
// be any bytes.
struct GgufValue {
  std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray> data;
};

// One tensor; dims in memory order as the file has them: dims[0] is the length of a row.
struct GgufTensor {
  GgmlType type = GgmlType::kF32;
  std::vector<int64_t> dims;
  std::span<const std::byte> bytes;

  int64_t cols() const { return dims.empty() ? 1 : dims[0]; }
  int64_t rows() const;
};

using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;
using GgufTensors = std::map<std::string, GgufTensor, std::less<>>;

// Checks a whole file image: what GgufFile::open runs, and what fuzzing feeds.
Result<void> parse_gguf(std::span<const std::byte> image, const std::string& path,
                        GgufMetadata& metadata, GgufTensors& tensors);

// A mapped file; strings and tensors stay valid as long as it lives. Move-only.
class GgufFile {
 public:
  // kCorrupt names file, field, expected and found; kUnsupported names a version, byte order or
  // tensor type that this build does not read.
  static Result<GgufFile> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const GgufMetadata& metadata() const { return metadata_; }
  const GgufTensors& tensors() const { return tensors_; }
  void release(std::span<const std::byte> bytes) const;

  // Typed metadata. kNotFound if the key is missing, kCorrupt if it has another type; both name
  // file and key.
  Result<int64_t> integer(std::string_view key) const;
  Result<double> number(std::string_view key) const;  // an integer counts
  Result<bool> boolean(std::string_view key) const;
  Result<std::string_view> string(std::string_view key) const;
  Result<std::vector<std::string_view>> strings(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  Result<std::vector<float>> numbers(std::string_view key) const;
  bool has(std::string_view key) const { return metadata_.contains(key); }

 private:
  MappedFile file_;
  GgufMetadata metadata_;
  GgufTensors tensors_;
};

}  // namespace zonda::checkpoint
