// Allocation and release of device and of page-locked memory.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/device_memory.h"

#include <cuda_runtime.h>

#include <utility>

#include "base/error.h"
#include "device/cuda/cuda_status.h"

namespace zonda::device::cuda {

Result<DeviceBuffer> DeviceBuffer::allocate(size_t bytes) {
  DeviceBuffer buffer;
  if (bytes == 0) {
    return buffer;
  }
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    const Result<int64_t> available = available_device_memory();
    return over_capacity("[DeviceBuffer] the GPU cannot give {} bytes; {} are free.", bytes,
                         available ? *available : 0);
  }
  if (auto allocated = check(status, "[DeviceBuffer] the allocation"); !allocated) {
    return allocated.error();
  }
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.size_ = bytes;
  CHECK(reinterpret_cast<uintptr_t>(data) % kAlignment == 0);
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) {
    (void)cudaFree(data_);
  }
}

Result<PinnedBuffer> PinnedBuffer::allocate(size_t bytes) {
  PinnedBuffer buffer;
  if (bytes == 0) {
    return buffer;
  }
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return over_capacity("[PinnedBuffer] the system refused {} bytes of page-locked memory.",
                         bytes);
  }
  if (auto allocated = check(status, "[PinnedBuffer] the allocation"); !allocated) {
    return allocated.error();
  }
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.size_ = bytes;
  return buffer;
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) {
    (void)cudaFreeHost(data_);
  }
}

Result<int64_t> available_device_memory() {
  size_t available = 0;
  size_t total = 0;
  const cudaError_t status = cudaMemGetInfo(&available, &total);
  if (auto asked = check(status, "[cuda] asking for the free memory"); !asked) {
    return asked.error();
  }
  return static_cast<int64_t>(available);
}

}  // namespace zonda::device::cuda
