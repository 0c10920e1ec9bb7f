// Times the upload of a mapped file in the page cache to the current CUDA device, by readers.
// Usage: cuda_upload_bench [FOLDER=/tmp]: writes and removes 2 GiB there.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "device/cuda/properties.h"
#include "device/cuda/upload.h"

namespace zonda::bench {
namespace {

constexpr size_t kBytes = size_t{2} << 30;

template <typename T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  return *std::move(result);
}

void write_file(const std::string& path) {
  std::vector<uint64_t> block(size_t{1} << 20);
  std::ofstream file(path, std::ios::binary);
  uint64_t x = 1;
  for (size_t written = 0; written < kBytes; written += block.size() * sizeof(uint64_t)) {
    for (uint64_t& word : block) {
      word = x = x * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
    }
    file.write(reinterpret_cast<const char*>(block.data()),
               static_cast<std::streamsize>(block.size() * sizeof(uint64_t)));
  }
}

// Each time through a fresh mapping, as a model is loaded.
void time_uploads(const std::string& path) {
  using Clock = std::chrono::steady_clock;
  const auto stream = must(device::cuda::Stream::create());
  auto target = must(device::cuda::DeviceBuffer::allocate(kBytes));
  std::printf("%8s %12s %12s\n", "readers", "locking", "upload");
  for (const int readers : {1, 2, 4, 8}) {
    for (int round = 0; round < 2; ++round) {
      const MappedFile file = must(MappedFile::open(path));
      const auto begin = Clock::now();
      auto uploader = must(device::cuda::Uploader::create(readers));
      const auto created = Clock::now();
      const Result<void> uploaded = uploader.upload(file.bytes(), target.data(), stream);
      const std::chrono::duration<double> took = Clock::now() - created;
      if (!uploaded) {
        std::fprintf(stderr, "%s\n", uploaded.error().message.c_str());
        std::exit(1);
      }
      std::printf("%8d %9.1f ms %7.1f GB/s\n", readers,
                  std::chrono::duration<double, std::milli>(created - begin).count(),
                  static_cast<double>(kBytes) / took.count() * 1e-9);
    }
  }
}

}  // namespace
}  // namespace zonda::bench

int main(int argc, char** argv) {
  const std::string path = std::string(argc > 1 ? argv[1] : "/tmp") + "/zonda_upload_bench.bin";
  zonda::bench::must(zonda::device::cuda::count_devices());  // before anything is written
  zonda::bench::write_file(path);
  zonda::bench::time_uploads(path);
  return unlink(path.c_str());
}
