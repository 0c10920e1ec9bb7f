// Laws of uploads: every byte arrives where it belongs, whatever the pieces and the readers.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/upload.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "device/cuda/gpu_test.h"

namespace zonda::device::cuda {
namespace {

std::vector<std::byte> random_bytes(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random());
  }
  return bytes;
}

TEST(SplitRanges, CoversEachRangeInOrderWithoutOverlap) {
  const std::vector<std::byte> source(1000);
  std::vector<std::byte> target(1000);
  const UploadRange ranges[] = {{std::span(source).first(250), target.data()},
                                {std::span(source).subspan(250, 0), target.data() + 250},
                                {std::span(source).subspan(250, 1), target.data() + 300},
                                {std::span(source).subspan(251), target.data() + 251}};
  for (const size_t piece : {size_t{1}, size_t{100}, size_t{250}, size_t{5000}}) {
    const std::vector<UploadRange> pieces = split_ranges(ranges, piece);
    size_t at = 0;
    for (const UploadRange& range : ranges) {
      for (size_t done = 0; done < range.source.size(); ++at) {
        ASSERT_LT(at, pieces.size());
        ASSERT_EQ(pieces[at].source.data(), range.source.data() + done);
        ASSERT_EQ(pieces[at].target, range.target + done);
        ASSERT_GE(pieces[at].source.size(), 1u);
        ASSERT_LE(pieces[at].source.size(), piece);
        done += pieces[at].source.size();
        ASSERT_LE(done, range.source.size());
      }
    }
    EXPECT_EQ(at, pieces.size());
  }
}

class Uploads : public test::GpuTest {};

TEST_F(Uploads, EveryByteArrivesAndNoOtherChanges) {
  constexpr size_t kSize = 5 * Uploader::kPieceBytes + 4321;
  const std::vector<std::byte> source = random_bytes(kSize, 11);
  const Stream stream = *Stream::create();
  for (const int readers : {1, 3}) {
    Result<Uploader> created = Uploader::create(readers);
    ASSERT_TRUE(created.ok()) << created.error().message;
    Uploader uploader = *std::move(created);
    DeviceBuffer target = *DeviceBuffer::allocate(kSize + 512);
    ASSERT_EQ(cudaMemset(target.data(), 0xff, target.size()), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const size_t cut = 3 * Uploader::kPieceBytes + 17;
    const UploadRange ranges[] = {{std::span(source).subspan(cut), target.data() + 256 + cut},
                                  {std::span(source).first(cut), target.data() + 256}};
    const Result<void> uploaded = uploader.upload(ranges, stream);
    ASSERT_TRUE(uploaded.ok()) << uploaded.error().message;
    std::vector<std::byte> arrived(target.size());
    ASSERT_EQ(cudaMemcpy(arrived.data(), target.data(), target.size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_TRUE(std::equal(source.begin(), source.end(), arrived.begin() + 256));
    for (size_t i = 0; i < 256; ++i) {
      ASSERT_EQ(arrived[i], std::byte{0xff});
      ASSERT_EQ(arrived[kSize + 256 + i], std::byte{0xff});
    }
  }
}

TEST_F(Uploads, AnUploaderIsUsedManyTimes) {
  const Stream stream = *Stream::create();
  Uploader uploader = *Uploader::create();
  DeviceBuffer target = *DeviceBuffer::allocate(Uploader::kPieceBytes + 1);
  for (unsigned i = 0; i < 6; ++i) {
    const std::vector<std::byte> source = random_bytes(i % 2 == 0 ? target.size() : i, i);
    ASSERT_TRUE(uploader.upload(source, target.data(), stream).ok());
    std::vector<std::byte> arrived(source.size());
    ASSERT_EQ(cudaMemcpy(arrived.data(), target.data(), source.size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(arrived, source);
  }
  EXPECT_TRUE(uploader.upload({}, stream).ok());
}

}  // namespace
}  // namespace zonda::device::cuda
