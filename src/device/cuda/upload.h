// Copies of mapped files to the device at the speed of the link.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "device/cuda/device_memory.h"
#include "device/cuda/stream.h"
#include "zonda/error.h"

namespace zonda::device::cuda {

struct UploadRange {
  std::span<const std::byte> source;  // pageable host memory, a mapped file for example
  std::byte* target = nullptr;        // source.size() bytes of device memory
};

// Pieces of at most `piece_bytes`, in order; empty ranges give none.
std::vector<UploadRange> split_ranges(std::span<const UploadRange> ranges, size_t piece_bytes);

// Readers copy pieces into page-locked slots of their own, two each, and issue the transfer
// themselves: while one slot is on the link the other is filled. One core copies from the page
// cache at 5 to 10 GB/s and a link of 16 PCIe 5 lanes takes 55 GB/s, hence several readers. A piece
// of 4 MiB spends 80 us on that link, far more than a transfer's few us of overhead, and 8 readers
// then lock only 64 MiB, which is quickly done. Move-only; one call at a time.
class Uploader {
 public:
  static constexpr size_t kPieceBytes = size_t{4} << 20;
  static constexpr int kMaxReaders = 8;

  // kCapacity if the slots cannot be locked. Works on the calling thread's device.
  static Result<Uploader> create(int num_readers = default_num_readers());
  // Hardware threads, at most kMaxReaders.
  static int default_num_readers();

  // Returns when every byte is on the device; targets must not be in use. The stream may hold
  // other work.
  Result<void> upload(std::span<const UploadRange> ranges, const Stream& stream);
  Result<void> upload(std::span<const std::byte> source, std::byte* target, const Stream& stream) {
    const UploadRange range{source, target};
    return upload(std::span(&range, 1), stream);
  }

 private:
  struct Slot {
    PinnedBuffer memory;
    Event transferred;
  };
  struct Reader {
    Slot slots[2];
  };

  int device_ = 0;
  std::vector<Reader> readers_;
};

}  // namespace zonda::device::cuda
