// Workers wait on an epoch counter: they spin while steps follow each other and sleep in between.
// SPDX-License-Identifier: Apache-2.0
#include "device/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/cpu_arch.h"
#include "device/cpu_features.h"

namespace zonda::device {
namespace {

constexpr size_t kCacheLine = 64;
// Longer than the gap between two kernels of a step, shorter than what a server's threads notice.
constexpr auto kSpinTime = std::chrono::microseconds(200);
constexpr int kRelaxesPerClockRead = 32;

// A counter that threads wait on. All changes are sequentially consistent read-modify-writes:
// notify_all() looks for sleepers after the change, and a weaker order could let it miss one.
struct alignas(kCacheLine) WaitCounter {
  std::atomic<uint32_t> value{0};

  // Returns the first value seen that differs from `old`. Spins for `spin_time`, then sleeps.
  uint32_t wait_while_equal(uint32_t old, std::chrono::nanoseconds spin_time) {
    uint32_t seen = value.load(std::memory_order_acquire);
    if (seen != old) {
      return seen;
    }
    const auto deadline = std::chrono::steady_clock::now() + spin_time;
    do {
      for (int i = 0; i < kRelaxesPerClockRead; ++i) {
        cpu_relax();
        seen = value.load(std::memory_order_acquire);
        if (seen != old) {
          return seen;
        }
      }
    } while (std::chrono::steady_clock::now() < deadline);
    while (seen == old) {
      value.wait(old, std::memory_order_acquire);
      seen = value.load(std::memory_order_acquire);
    }
    return seen;
  }

  void advance() {
    value.fetch_add(1);
    value.notify_all();
  }
};

// The processors this process may use, in order.
std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

void pin_this_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // Refused pinning costs speed only.
  (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace

struct ThreadPool::State {
  WaitCounter epoch;     // one job each; the last one stops the workers
  WaitCounter finished;  // workers that are done, counted over all jobs
  WaitCounter phase;     // completed barriers: its value plays the part of the barrier's sense
  alignas(kCacheLine) std::atomic<int> arrived{0};  // threads at the current barrier
  alignas(kCacheLine) std::atomic<bool> running{false};

  // Written by the caller before it advances epoch, read by workers after they saw it.
  Job job = nullptr;
  void* context = nullptr;
  bool stop = false;

  int size = 1;
  std::chrono::nanoseconds spin_time{0};
  std::vector<std::thread> workers;

  void work(int thread) {
    uint32_t seen = 0;
    for (;;) {
      seen = epoch.wait_while_equal(seen, spin_time);
      if (stop) {
        return;
      }
      job(context, thread);
      finished.advance();
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  CHECK(threads >= 1);
  State& state = *state_;
  state.size = threads;
  const std::vector<int> cpus = allowed_cpus();
  const bool own_cpu_each = static_cast<size_t>(threads) <= cpus.size();
  // Spinning helps only while the awaited thread can run at the same time.
  state.spin_time = own_cpu_each ? kSpinTime : std::chrono::nanoseconds(0);
  state.workers.reserve(static_cast<size_t>(threads - 1));
  for (int thread = 1; thread < threads; ++thread) {
    const int cpu = own_cpu_each ? cpus[static_cast<size_t>(thread)] : -1;
    state.workers.emplace_back([&state, thread, cpu] {
      if (cpu >= 0) {
        pin_this_thread(cpu);
      }
      state.work(thread);
    });
  }
}

ThreadPool::~ThreadPool() {
  CHECK(!state_->running.load());
  state_->stop = true;
  state_->epoch.advance();
  for (std::thread& worker : state_->workers) {
    worker.join();
  }
}

int ThreadPool::size() const { return state_->size; }

void ThreadPool::run_job(Job job, void* context) {
  State& state = *state_;
  CHECK(!state.running.exchange(true, std::memory_order_acquire));
  if (state.size > 1) {
    state.job = job;
    state.context = context;
    const uint32_t workers = static_cast<uint32_t>(state.size - 1);
    // Nobody works now, so the count stands still until the epoch advances.
    const uint32_t target = state.finished.value.load(std::memory_order_relaxed) + workers;
    state.epoch.advance();
    job(context, 0);
    uint32_t done = state.finished.value.load(std::memory_order_acquire);
    while (done != target) {
      done = state.finished.wait_while_equal(done, state.spin_time);
    }
  } else {
    job(context, 0);
  }
  state.running.store(false, std::memory_order_release);
}

void ThreadPool::barrier() {
  State& state = *state_;
  // Read before arriving: the phase cannot advance without this thread.
  const uint32_t phase = state.phase.value.load(std::memory_order_acquire);
  if (state.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == state.size) {
    state.arrived.store(0, std::memory_order_relaxed);
    state.phase.advance();
    return;
  }
  state.phase.wait_while_equal(phase, state.spin_time);
}

}  // namespace zonda::device
