// Streams and events over the CUDA runtime.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/stream.h"

#include <utility>

#include "device/cuda/cuda_status.h"

namespace zonda::device::cuda {

Result<Stream> Stream::create() {
  Stream stream;
  const cudaError_t status = cudaStreamCreateWithFlags(&stream.handle_, cudaStreamNonBlocking);
  if (auto created = check(status, "[Stream] the creation"); !created) {
    return created.error();
  }
  return stream;
}

Stream::Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Stream::~Stream() {
  if (handle_ != nullptr) {
    (void)cudaStreamDestroy(handle_);
  }
}

Result<void> Stream::synchronize() const {
  return check(cudaStreamSynchronize(handle_), "[Stream] work on the GPU");
}

Result<void> Stream::wait(const Event& event) const {
  return check(cudaStreamWaitEvent(handle_, event.handle(), 0), "[Stream] the wait for an event");
}

Result<Event> Event::create(bool timed) {
  Event event;
  const unsigned flags = timed ? cudaEventDefault : cudaEventDisableTiming;
  const cudaError_t status = cudaEventCreateWithFlags(&event.handle_, flags);
  if (auto created = check(status, "[Event] the creation"); !created) {
    return created.error();
  }
  return event;
}

Event::Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ != nullptr) {
    (void)cudaEventDestroy(handle_);
  }
}

Result<void> Event::record(const Stream& stream) const {
  return check(cudaEventRecord(handle_, stream.handle()), "[Event] the mark");
}

Result<void> Event::synchronize() const {
  return check(cudaEventSynchronize(handle_), "[Event] work on the GPU");
}

Result<bool> Event::is_done() const {
  const cudaError_t status = cudaEventQuery(handle_);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  if (auto asked = check(status, "[Event] work on the GPU"); !asked) {
    return asked.error();
  }
  return true;
}

Result<float> elapsed_ms(const Event& start, const Event& end) {
  float elapsed = 0.0f;
  const cudaError_t status = cudaEventElapsedTime(&elapsed, start.handle(), end.handle());
  if (auto measured = check(status, "[Event] the time between two marks"); !measured) {
    return measured.error();
  }
  return elapsed;
}

}  // namespace zonda::device::cuda
