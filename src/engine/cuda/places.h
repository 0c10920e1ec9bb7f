// Arrays that lie one after the other in a block of host memory and in its copy on the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace zonda::engine::cuda {

constexpr int64_t aligned_place(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Hands out the same places of both blocks.
class Places {
 public:
  Places(std::byte* host, std::byte* device) : host_(host), device_(device) {}

  // Room for `count` values; the host's address.
  template <typename T, typename DeviceT>
  T* take(int64_t count, DeviceT*& device) {
    T* host = reinterpret_cast<T*>(host_ + offset_);
    device = reinterpret_cast<DeviceT*>(device_ + offset_);
    offset_ += aligned_place(count * static_cast<int64_t>(sizeof(T)));
    return host;
  }
  int64_t bytes() const { return offset_; }

 private:
  std::byte* host_;
  std::byte* device_;
  int64_t offset_ = 0;
};

}  // namespace zonda::engine::cuda
