// Host memory straight from mmap: zero-filled, page-aligned, returned to the system when freed.
// SPDX-License-Identifier: Apache-2.0
#include "device/buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace zonda::device {
namespace {

// Below this a huge page would mostly waste memory.
constexpr size_t kHugePageThreshold = size_t{2} << 20;

}  // namespace

Result<Buffer> Buffer::allocate(size_t bytes) {
  Buffer buffer;
  if (bytes == 0) {
    return buffer;
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return over_capacity("[Buffer] the system refused {} bytes of memory: {}.", bytes,
                         std::strerror(errno));
  }
  if (bytes >= kHugePageThreshold) {
    // A wish only: without it everything works on small pages.
    (void)madvise(data, bytes, MADV_HUGEPAGE);
  }
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.size_ = bytes;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) {
    munmap(data_, size_);
  }
}

}  // namespace zonda::device
