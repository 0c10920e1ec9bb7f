// SPDX-License-Identifier: Apache-2.0
#include "api/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/env.h"
#include "base/error.h"

namespace zonda::api {
namespace {

namespace fs = std::filesystem;

// An exclusive lock on a file, held until destruction or the end of the process.
class FileLock {
 public:
  static Result<FileLock> take(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (descriptor < 0) {
      return io_error("[cache] cannot open {}: {}.", path, std::strerror(errno));
    }
    FileLock lock(descriptor);
    int result = 0;
    do {
      result = ::flock(descriptor, LOCK_EX);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
      return io_error("[cache] cannot lock {}: {}.", path, std::strerror(errno));
    }
    return lock;
  }
  FileLock(FileLock&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// What a killed process left of this entry; nobody else works on it while we hold the lock.
void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  const std::string prefix = folder.filename().string() + ".partial-";
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.parent_path(), error)) {
    if (entry.path().filename().string().starts_with(prefix)) {
      fs::remove_all(entry.path(), error);
    }
  }
}

}  // namespace

Result<std::string> cache_root(const std::string& configured) {
  const std::string root = configured.empty() ? cache_folder() : configured;
  if (root.empty()) {
    return invalid_argument(
        "[cache] no folder for what has to be made on the way: set XDG_CACHE_HOME or HOME, or give "
        "--cache_dir.");
  }
  return root;
}

Result<std::string> cached_folder(
    const std::string& root, const std::string& name,
    const std::function<Result<void>(const std::string& folder)>& make) {
  const std::string folder = root + "/" + name;
  std::error_code error;
  if (fs::exists(folder, error)) {
    return folder;
  }
  fs::create_directories(root, error);
  if (error) {
    return io_error("[cache] cannot make {}: {}.", root, error.message());
  }
  Result<FileLock> lock = FileLock::take(folder + ".lock");
  if (!lock) {
    return lock.error();
  }
  if (fs::exists(folder, error)) {
    return folder;
  }
  remove_leftovers(folder);
  const Result<void> made = make(folder);
  if (!made) {
    return made.error();
  }
  return folder;
}

}  // namespace zonda::api
