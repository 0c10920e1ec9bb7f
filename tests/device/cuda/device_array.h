// Arrays on the GPU for tests, poisoned until they are written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "device/cuda/device_memory.h"

namespace zonda::test {

template <typename T>
class DeviceArray {
 public:
  // Every byte is 0xff, also of the guard behind the array.
  explicit DeviceArray(size_t size) : size_(size) {
    auto allocated = device::cuda::DeviceBuffer::allocate(size * sizeof(T) + kGuard);
    EXPECT_TRUE(allocated.ok());
    buffer_ = *std::move(allocated);
    EXPECT_EQ(cudaMemset(buffer_.data(), 0xff, buffer_.size()), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { write(values); }

  T* data() { return buffer_.as<T>(); }
  size_t size() const { return size_; }
  // The values have arrived when it returns: a copy from pageable memory returns once they are
  // staged, and streams of their own do not wait for the rest of its way.
  void write(const std::vector<T>& values) {
    ASSERT_EQ(values.size(), size_);
    EXPECT_EQ(cudaMemcpy(buffer_.data(), values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  // The contents once all work on the device is done; a write behind the array is a failure.
  std::vector<T> read() const {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::vector<T> values(size_);
    EXPECT_EQ(cudaMemcpy(values.data(), buffer_.data(), size_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    std::vector<uint8_t> guard(kGuard);
    EXPECT_EQ(cudaMemcpy(guard.data(), buffer_.data() + size_ * sizeof(T), kGuard,
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(guard, std::vector<uint8_t>(kGuard, 0xff));
    return values;
  }

 private:
  static constexpr size_t kGuard = 64;
  size_t size_;
  device::cuda::DeviceBuffer buffer_;
};

}  // namespace zonda::test
