// Laws of owned memory: zero-filled, aligned, moved not copied, refused with a reason.
// SPDX-License-Identifier: Apache-2.0
#include "device/buffer.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace zonda::device {
namespace {

TEST(Buffer, MemoryIsZeroAndAligned) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{5000}, size_t{3} << 20}) {
    Result<Buffer> buffer = Buffer::allocate(bytes);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Buffer::kAlignment, 0u);
    for (size_t i = 0; i < bytes; i += 997) {
      EXPECT_EQ(buffer->data()[i], std::byte{0});
    }
    buffer->data()[bytes - 1] = std::byte{7};
    EXPECT_EQ(buffer->as<uint8_t>()[bytes - 1], 7);
  }
}

TEST(Buffer, NoBytesIsAnEmptyBuffer) {
  const Result<Buffer> buffer = Buffer::allocate(0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_EQ(buffer->size(), 0u);
}

TEST(Buffer, MovingHandsTheMemoryOver) {
  Buffer first = *Buffer::allocate(64);
  std::byte* data = first.data();
  Buffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT: the moved-from state is part of the contract
  Buffer third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 64u);
}

TEST(Buffer, AnImpossibleSizeIsACapacityErrorWithTheNumber) {
  const size_t bytes = std::numeric_limits<size_t>::max() / 2;
  const Result<Buffer> buffer = Buffer::allocate(bytes);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.error().code, ErrorCode::kCapacity);
  EXPECT_NE(buffer.error().message.find(std::to_string(bytes)), std::string::npos);
}

}  // namespace
}  // namespace zonda::device
