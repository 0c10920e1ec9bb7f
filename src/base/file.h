// Files: read whole, mapped read-only, or written so that a failed write leaves nothing behind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "zonda/error.h"

namespace zonda {

// The whole file. kNotFound if it does not exist, kIo otherwise; both with path and the system's
// reason.
Result<std::string> read_file(const std::string& path);

// Writes `path` through a temporary file beside it and a rename, so that readers see the old or the
// new content.
Result<void> write_file(const std::string& path, std::string_view content);

// A read-only mapping of a whole file; an empty file has an empty span. Move-only, unmapped by the
// destructor.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Tells the kernel that these bytes will not be read again soon, so that they stop counting as
  // resident.
  void release(size_t offset, size_t length) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A folder that appears under its final name only when commit() succeeds; otherwise the destructor
// removes it.
class StagedFolder {
 public:
  // Creates "<final_path>.partial-<pid>". kInvalidArgument if final_path exists and is not an empty
  // folder, unless `replace` (then commit() replaces it).
  static Result<StagedFolder> create(const std::string& final_path, bool replace);
  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&& other) = delete;
  ~StagedFolder();

  const std::string& path() const { return staging_; }
  Result<void> commit();

 private:
  StagedFolder(std::string staging, std::string final_path)
      : staging_(std::move(staging)), final_(std::move(final_path)) {}
  std::string staging_;  // empty once committed or moved from
  std::string final_;
};

}  // namespace zonda
