// Fixed set of threads that run one job at a time together with the caller; made for steps of
// microseconds. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace zonda::device {

class ThreadPool {
 public:
  // `threads` >= 1 counts the caller; threads - 1 workers are started. Workers spin for a bounded
  // time between jobs and then sleep.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int size() const;

  // Calls body(thread) for thread = 0 .. size() - 1, thread 0 on the caller; returns when all have
  // returned. One job at a time: only one thread may call run() at once, and never from inside a
  // job. body must not throw.
  template <typename Body>
  void run(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_job([](void* context, int thread) { (*static_cast<Plain*>(context))(thread); },
            const_cast<void*>(static_cast<const void*>(&body)));
  }

  // Splits [0, count) into size() contiguous ranges whose bounds are multiples of `grain` and calls
  // body(begin, end) for each non-empty one. Runs on the caller alone if there is only one range.
  template <typename Body>
  void parallel_for(int64_t count, int64_t grain, Body&& body) {
    const int64_t units = (count + grain - 1) / grain;
    if (units <= 1 || size() == 1) {
      if (count > 0) {
        body(int64_t{0}, count);
      }
      return;
    }
    const int64_t threads = size();
    run([&](int thread) {
      const int64_t begin = units * thread / threads * grain;
      const int64_t end_units = units * (thread + 1) / threads * grain;
      const int64_t end = end_units < count ? end_units : count;
      if (begin < end) {
        body(begin, end);
      }
    });
  }

  // Inside run(): returns when all size() threads have arrived. Every thread must call it equally
  // often.
  void barrier();

 private:
  using Job = void (*)(void* context, int thread);
  void run_job(Job job, void* context);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zonda::device
