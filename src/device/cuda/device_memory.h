// Owned memory of the current CUDA device, and host memory that copies reach at link speed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "zonda/error.h"

namespace zonda::device::cuda {

// Move-only. Freeing waits for the device's running work.
class DeviceBuffer {
 public:
  static constexpr size_t kAlignment = 256;

  DeviceBuffer() = default;
  // Uninitialised memory. kCapacity names the bytes asked for and the bytes free; bytes may be 0.
  static Result<DeviceBuffer> allocate(size_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  // A device address: never read on the host.
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Page-locked host memory that every device may copy from and to. Move-only.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  // Uninitialised, page-aligned. kCapacity if the system refuses; bytes may be 0.
  static Result<PinnedBuffer> allocate(size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Bytes that the current device could still give out.
Result<int64_t> available_device_memory();

}  // namespace zonda::device::cuda
