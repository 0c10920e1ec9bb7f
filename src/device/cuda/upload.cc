// Reader threads that fill page-locked slots and issue their transfers.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/upload.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "device/cuda/cuda_status.h"

namespace zonda::device::cuda {
namespace {

// Maps the pages at once instead of by faults; a wish, older kernels refuse it.
void populate(std::span<const std::byte> bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size());
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
}

// Pieces handed out in order; the first fault ends the work.
class Work {
 public:
  explicit Work(std::vector<UploadRange> pieces) : pieces_(std::move(pieces)) {}

  size_t size() const { return pieces_.size(); }
  const UploadRange* next() {
    const size_t index = next_.fetch_add(1);
    return index < pieces_.size() ? &pieces_[index] : nullptr;
  }
  void fail(Error error) {
    const std::lock_guard lock(mutex_);
    if (!error_) {
      error_ = std::move(error);
    }
    next_ = pieces_.size();
  }
  Result<void> result() const { return error_ ? Result<void>(*error_) : Result<void>(); }

 private:
  std::vector<UploadRange> pieces_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::optional<Error> error_;
};

Result<void> transfer(const UploadRange& piece, PinnedBuffer& slot, const Event& transferred,
                      const Stream& stream) {
  if (auto waited = transferred.synchronize(); !waited) {
    return waited;
  }
  populate(piece.source);
  std::memcpy(slot.data(), piece.source.data(), piece.source.size());
  const cudaError_t copied = cudaMemcpyAsync(piece.target, slot.data(), piece.source.size(),
                                             cudaMemcpyHostToDevice, stream.handle());
  if (auto issued = check(copied, "[upload] the transfer"); !issued) {
    return issued;
  }
  return transferred.record(stream);
}

}  // namespace

std::vector<UploadRange> split_ranges(std::span<const UploadRange> ranges, size_t piece_bytes) {
  CHECK(piece_bytes > 0);
  std::vector<UploadRange> pieces;
  for (const UploadRange& range : ranges) {
    for (size_t at = 0; at < range.source.size(); at += piece_bytes) {
      const size_t bytes = std::min(piece_bytes, range.source.size() - at);
      pieces.push_back({range.source.subspan(at, bytes), range.target + at});
    }
  }
  return pieces;
}

int Uploader::default_num_readers() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxReaders);
}

Result<Uploader> Uploader::create(int num_readers) {
  CHECK(num_readers > 0);
  Uploader uploader;
  if (auto asked = check(cudaGetDevice(&uploader.device_), "[upload] the device"); !asked) {
    return asked.error();
  }
  uploader.readers_.resize(static_cast<size_t>(num_readers));
  for (Reader& reader : uploader.readers_) {
    for (Slot& slot : reader.slots) {
      Result<PinnedBuffer> memory = PinnedBuffer::allocate(kPieceBytes);
      if (!memory) {
        return memory.error();
      }
      Result<Event> event = Event::create();
      if (!event) {
        return event.error();
      }
      slot.memory = *std::move(memory);
      slot.transferred = *std::move(event);
    }
  }
  return uploader;
}

Result<void> Uploader::upload(std::span<const UploadRange> ranges, const Stream& stream) {
  Work work(split_ranges(ranges, kPieceBytes));
  const auto read = [&](Reader& reader) {
    Result<void> done = check(cudaSetDevice(device_), "[upload] choosing the device");
    for (size_t i = 0; done.ok(); ++i) {
      const UploadRange* piece = work.next();
      if (piece == nullptr) {
        break;
      }
      Slot& slot = reader.slots[i % 2];
      done = transfer(*piece, slot.memory, slot.transferred, stream);
    }
    for (Slot& slot : reader.slots) {
      const Result<void> ended = slot.transferred.synchronize();
      done = done.ok() ? ended : done;
    }
    if (!done) {
      work.fail(done.error());
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(readers_.size(), work.size()); ++i) {
    threads.emplace_back(read, std::ref(readers_[i]));
  }
  read(readers_[0]);
  for (std::thread& thread : threads) {
    thread.join();
  }
  return work.result();
}

}  // namespace zonda::device::cuda
