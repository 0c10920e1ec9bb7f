// Laws of device memory: aligned, owned once, and a refusal names the bytes.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/device_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "device/cuda/gpu_test.h"

namespace zonda::device::cuda {
namespace {

class DeviceMemory : public test::GpuTest {};

TEST(EmptyMemory, NeedsNoDevice) {
  EXPECT_EQ(DeviceBuffer::allocate(0)->data(), nullptr);
  EXPECT_EQ(PinnedBuffer::allocate(0)->size(), 0u);
}

TEST_F(DeviceMemory, IsAlignedAndMoves) {
  for (const size_t bytes : {size_t{1}, size_t{257}, size_t{4} << 20}) {
    Result<DeviceBuffer> allocated = DeviceBuffer::allocate(bytes);
    ASSERT_TRUE(allocated.ok()) << allocated.error().message;
    DeviceBuffer buffer = *std::move(allocated);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % DeviceBuffer::kAlignment, 0u);
    EXPECT_EQ(buffer.size(), bytes);
    std::byte* const data = buffer.data();
    const DeviceBuffer moved = std::move(buffer);
    EXPECT_EQ(moved.data(), data);
    EXPECT_EQ(cudaMemset(data, 1, bytes), cudaSuccess);
  }
}

TEST_F(DeviceMemory, FreedMemoryIsAvailableAgain) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  const Result<int64_t> before = available_device_memory();
  ASSERT_TRUE(before.ok());
  {
    const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(kBytes);
    ASSERT_TRUE(buffer.ok());
    EXPECT_LE(*available_device_memory(), *before - kBytes);
  }
  EXPECT_GT(*available_device_memory(), *before - kBytes);
}

TEST_F(DeviceMemory, ARefusalNamesTheBytesAskedAndFree) {
  constexpr size_t kBytes = size_t{1} << 45;
  const Result<DeviceBuffer> refused = DeviceBuffer::allocate(kBytes);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kCapacity);
  EXPECT_NE(refused.error().message.find(std::to_string(kBytes)), std::string::npos);
  EXPECT_NE(refused.error().message.find("are free"), std::string::npos);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // a later launch must not report it
}

TEST_F(DeviceMemory, PinnedMemoryIsHostMemoryThatTheDriverKnows) {
  Result<PinnedBuffer> allocated = PinnedBuffer::allocate(12345);
  ASSERT_TRUE(allocated.ok()) << allocated.error().message;
  PinnedBuffer buffer = *std::move(allocated);
  buffer.as<char>()[12344] = 'z';
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, buffer.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
}

}  // namespace
}  // namespace zonda::device::cuda
