// Ordered queues of device work, and points in them that can be awaited and timed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "device/cuda/launch.h"
#include "zonda/error.h"

namespace zonda::device::cuda {

class Event;

// Owns a stream of the current device that does not synchronise with the default stream. Move-only.
// Any thread may use it.
class Stream {
 public:
  static Result<Stream> create();
  Stream() = default;  // no stream: only to be assigned to
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  cudaStream_t handle() const { return handle_; }
  LaunchSite site(bool dependent = false) const { return {handle_, dependent}; }
  // Waits for all work so far; reports the faults of kernels.
  Result<void> synchronize() const;
  // Work after this waits for `event`.
  Result<void> wait(const Event& event) const;

 private:
  cudaStream_t handle_ = nullptr;
};

// Move-only.
class Event {
 public:
  // `timed` events cost a little more and can be given to elapsed_ms.
  static Result<Event> create(bool timed = false);
  Event() = default;  // no event: only to be assigned to
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  cudaEvent_t handle() const { return handle_; }
  // Marks the end of the stream's work so far.
  Result<void> record(const Stream& stream) const;
  // Waits for the last recorded mark; done at once if there is none.
  Result<void> synchronize() const;
  // Whether that mark has been passed.
  Result<bool> is_done() const;

 private:
  cudaEvent_t handle_ = nullptr;
};

// Milliseconds between the marks of two timed events that have both been passed.
Result<float> elapsed_ms(const Event& start, const Event& end);

}  // namespace zonda::device::cuda
