// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace zonda {
namespace {

namespace fs = std::filesystem;

Error system_error(std::string_view action, const std::string& path, int code) {
  const std::string reason = std::error_code(code, std::generic_category()).message();
  if (code == ENOENT) {
    return not_found("[file] {} {}: {}.", action, path, reason);
  }
  return io_error("[file] {} {}: {}.", action, path, reason);
}

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

Result<size_t> regular_file_size(int fd, const std::string& path) {
  struct stat status;
  if (::fstat(fd, &status) != 0) {
    return system_error("stat", path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return invalid_argument("[file] {} is not a regular file.", path);
  }
  return static_cast<size_t>(status.st_size);
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return system_error("open", path, errno);
  }
  Result<size_t> size = regular_file_size(file.get(), path);
  if (!size.ok()) {
    return size.error();
  }
  std::string content(*size, '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = ::read(file.get(), content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return system_error("read", path, errno);
    }
    if (count == 0) {
      break;
    }
    done += static_cast<size_t>(count);
  }
  content.resize(done);
  return content;
}

Result<void> write_file(const std::string& path, std::string_view content) {
  const std::string temporary = fmt::format("{}.partial-{}", path, ::getpid());
  {
    const Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file.valid()) {
      return system_error("create", temporary, errno);
    }
    while (!content.empty()) {
      const ssize_t count = ::write(file.get(), content.data(), content.size());
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count < 0) {
        const int code = errno;
        ::unlink(temporary.c_str());
        return system_error("write", temporary, code);
      }
      content.remove_prefix(static_cast<size_t>(count));
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int code = errno;
    ::unlink(temporary.c_str());
    return system_error("rename to", path, code);
  }
  return {};
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return system_error("open", path, errno);
  }
  Result<size_t> size = regular_file_size(file.get(), path);
  if (!size.ok()) {
    return size.error();
  }
  MappedFile mapped;
  mapped.path_ = path;
  if (*size == 0) {
    return mapped;
  }
  void* address = ::mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) {
    return system_error("map", path, errno);
  }
  mapped.data_ = static_cast<const std::byte*>(address);
  mapped.size_ = *size;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

void MappedFile::release(size_t offset, size_t length) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + length) / page * page;
  if (begin < end && end <= size_ + page) {
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
  }
}

Result<StagedFolder> StagedFolder::create(const std::string& final_path, bool replace) {
  std::error_code code;
  std::string target = fs::path(final_path).lexically_normal().string();
  while (target.size() > 1 && target.back() == '/') {
    target.pop_back();
  }
  if (fs::exists(target, code) && !replace) {
    if (!fs::is_directory(target, code) || !fs::is_empty(target, code)) {
      return invalid_argument("[file] {} exists and is not an empty folder.", final_path);
    }
  }
  const fs::path parent = fs::path(target).parent_path();
  if (!parent.empty()) {
    fs::create_directories(parent, code);
    if (code) {
      return io_error("[file] create {}: {}.", parent.string(), code.message());
    }
  }
  const std::string staging = fmt::format("{}.partial-{}", target, ::getpid());
  fs::remove_all(staging, code);
  fs::create_directory(staging, code);
  if (code) {
    return io_error("[file] create {}: {}.", staging, code.message());
  }
  return StagedFolder(staging, target);
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : staging_(std::exchange(other.staging_, {})), final_(std::move(other.final_)) {}

StagedFolder::~StagedFolder() {
  if (!staging_.empty()) {
    std::error_code ignored;
    fs::remove_all(staging_, ignored);
  }
}

Result<void> StagedFolder::commit() {
  CHECK(!staging_.empty());
  std::error_code code;
  fs::remove_all(final_, code);
  fs::rename(staging_, final_, code);
  if (code) {
    return io_error("[file] rename {} to {}: {}.", staging_, final_, code.message());
  }
  staging_.clear();
  return {};
}

}  // namespace zonda
