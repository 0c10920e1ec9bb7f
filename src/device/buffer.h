// Owned memory of a device: aligned, sized in bytes, move-only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "zonda/error.h"

namespace zonda::device {

class Buffer {
 public:
  static constexpr size_t kAlignment = 4096;

  Buffer() = default;
  // Zero-filled, page-aligned host memory; large ones ask for huge pages. kCapacity if the system
  // refuses; bytes may be 0.
  static Result<Buffer> allocate(size_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace zonda::device
