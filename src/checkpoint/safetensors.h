// The safetensors file format: a mapped reader that checks every size before use, a set of files
// seen as one, and a writer that fills a file whose header is known from shapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "zonda/error.h"

namespace zonda::checkpoint {

// A tensor inside a mapped file: row-major, little-endian, valid as long as its file is open.
// A foreign file may place it at any byte: only a Checkpoint promises alignment.
struct TensorView {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;        // [] is a scalar
  std::span<const std::byte> bytes;  // product of shape x dtype_size(dtype)
};

// "[576, 1536]".
std::string shape_text(std::span<const int64_t> shape);
// The format's spelling: "F32", "BF16", "I8", ...
std::string_view safetensors_dtype_name(DType dtype);

using TensorMap = std::map<std::string, TensorView, std::less<>>;
using MetadataMap = std::map<std::string, std::string, std::less<>>;

// A header longer than this is refused, as the reference library does.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

// One mapped file. Move-only.
class SafetensorsFile {
 public:
  // kCorrupt names file, tensor, expected and found; kUnsupported names an unknown dtype.
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const TensorMap& tensors() const { return tensors_; }
  const MetadataMap& metadata() const { return metadata_; }
  // The pages of these bytes stop counting as resident until they are read again.
  void release(std::span<const std::byte> bytes) const;

 private:
  MappedFile file_;
  TensorMap tensors_;
  MetadataMap metadata_;
};

// Checks a whole file image without mapping anything: what open() runs, and what fuzzing feeds.
Result<void> parse_safetensors(std::span<const std::byte> image, const std::string& path,
                               TensorMap& tensors, MetadataMap& metadata);

// Several files as one set of names. Move-only.
class SafetensorsSet {
 public:
  // A name in two files is kCorrupt.
  static Result<SafetensorsSet> open_files(const std::vector<std::string>& paths);
  // A Hugging Face folder: model.safetensors.index.json with its shards, or the only *.safetensors.
  // The index must name exactly the tensors of its shards, each in the shard that has it.
  static Result<SafetensorsSet> open_folder(const std::string& folder);

  // Null if no file has it.
  const TensorView* find(std::string_view name) const;
  // The file that holds `name`; it must exist.
  const SafetensorsFile& file_of(std::string_view name) const;
  const std::vector<SafetensorsFile>& files() const { return files_; }
  // Sorted.
  std::vector<std::string> names() const;

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> owner_;  // index into files_
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
};

// Writes one file. The header is written first; then bytes arrive in any order and in any pieces,
// also from several threads at once for different bytes. Move-only.
// Tensors are laid out so that a size that is a multiple of 2^k (k <= 6) starts at one too; the
// data begins at a multiple of 64. There are no holes.
class SafetensorsWriter {
 public:
  // kInvalidArgument for a repeated name; kIo if the disk refuses.
  static Result<SafetensorsWriter> create(const std::string& path,
                                          const std::vector<TensorSpec>& tensors,
                                          const MetadataMap& metadata);
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  // Bytes [offset, offset + bytes.size()) of the tensor.
  Result<void> write(std::string_view name, uint64_t offset, std::span<const std::byte> bytes);
  // kInternal names a tensor that did not get all of its bytes. Closes the file.
  Result<void> finish();
  // Size of the whole file.
  uint64_t file_bytes() const;

 private:
  struct State;
  explicit SafetensorsWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace zonda::checkpoint
