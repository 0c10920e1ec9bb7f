// The step thread: take what was posted, run a step, publish what came of it.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor_thread.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/error.h"

namespace zonda::runtime {

ThreadedExecutor::ThreadedExecutor(std::unique_ptr<ModelRunner> runner,
                                   std::unique_ptr<StepLoop> loop, const ExecutorConfig& config,
                                   Clock clock)
    : runner_(std::move(runner)),
      loop_(std::move(loop)),
      max_queue_size_(config.max_queue_size),
      max_stats_(static_cast<size_t>(config.stats_max_iterations)),
      clock_(std::move(clock)),
      kv_cache_stats_(loop_->kv_cache_stats()),
      thread_([this] { run(); }) {}

ThreadedExecutor::~ThreadedExecutor() { shutdown(); }

Result<RequestId> ThreadedExecutor::enqueue(Request request) {
  const double arrival_ms = clock_();
  if (auto prepared = loop_->prepare(request); !prepared) {
    return prepared.error();
  }
  const std::lock_guard lock(mutex_);
  if (stopping_) {
    return make_error(ErrorCode::kCancelled, "[executor] it is shut down and takes no request.");
  }
  const int32_t waiting = num_posted_ + num_queued_;
  if (request.sampling.n > max_queue_size_ - waiting) {
    return over_capacity(
        "[executor] the queue is full: {} sequences wait and {} more arrive; max_queue_size is "
        "{}.",
        waiting, request.sampling.n, max_queue_size_);
  }
  const RequestId id = ++last_id_;
  num_posted_ += request.sampling.n;
  responses_.open(id);
  inbox_.arrivals.push_back({id, std::move(request), arrival_ms});
  inbox_changed_.notify_one();
  return id;
}

std::vector<Response> ThreadedExecutor::await_responses(Timeout timeout) {
  return responses_.take_any(timeout);
}

Result<std::vector<Response>> ThreadedExecutor::await_responses(RequestId id, Timeout timeout) {
  return responses_.take(id, timeout);
}

Result<std::vector<std::vector<Response>>> ThreadedExecutor::await_responses(
    std::span<const RequestId> ids, Timeout timeout) {
  using std::chrono::steady_clock;
  const auto start = steady_clock::now();
  std::vector<std::vector<Response>> lists;
  for (const RequestId id : ids) {
    Timeout left = timeout;
    if (timeout.has_value()) {
      const auto passed =
          std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - start);
      left = std::max(*timeout - passed, std::chrono::milliseconds(0));
    }
    auto responses = responses_.take(id, left);
    if (!responses) {
      return responses.error();
    }
    lists.push_back(std::move(*responses));
  }
  return lists;
}

size_t ThreadedExecutor::num_responses_ready(std::optional<RequestId> id) const {
  return responses_.num_ready(id);
}

void ThreadedExecutor::cancel(RequestId id) { post_cancel({id, -1}); }

void ThreadedExecutor::cancel_sequence(RequestId id, int32_t sequence_index) {
  if (sequence_index >= 0) {
    post_cancel({id, sequence_index});
  }
}

void ThreadedExecutor::abandon(RequestId id) {
  responses_.abandon(id);
  cancel(id);
}

void ThreadedExecutor::post_cancel(Cancel cancel) {
  const std::lock_guard lock(mutex_);
  if (!stopping_ && cancel.id <= last_id_) {
    inbox_.cancels.push_back(cancel);
    inbox_changed_.notify_one();
  }
}

void ThreadedExecutor::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    inbox_changed_.notify_one();
  }
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool ThreadedExecutor::can_enqueue() const {
  const std::lock_guard lock(mutex_);
  return !stopping_ && num_posted_ + num_queued_ < max_queue_size_;
}

std::vector<IterationStats> ThreadedExecutor::latest_iteration_stats() {
  const std::lock_guard lock(mutex_);
  std::vector<IterationStats> latest(stats_.begin(), stats_.end());
  stats_.clear();
  return latest;
}

KvCacheStats ThreadedExecutor::kv_cache_stats() const {
  const std::lock_guard lock(mutex_);
  return kv_cache_stats_;
}

void ThreadedExecutor::run() {
  for (Inbox inbox; next_inbox(inbox);) {
    try {
      work(inbox);
    } catch (const std::exception& exception) {
      // Out of memory, most likely: the requests that are running end, the next ones may fit.
      loop_->fail_all(internal_error("[executor] a step failed: {}.", exception.what()));
    }
    publish();
  }
  Inbox rest;
  {
    const std::lock_guard lock(mutex_);
    std::swap(rest, inbox_);
  }
  for (Arrival& arrival : rest.arrivals) {
    loop_->add(arrival.id, std::move(arrival.request), arrival.arrival_ms);
  }
  loop_->cancel_all(FinishReason::kCancelled);
  publish();
  responses_.close();
}

bool ThreadedExecutor::next_inbox(Inbox& inbox) {
  std::unique_lock lock(mutex_);
  inbox_changed_.wait(lock, [this] {
    return stopping_ || loop_->has_work() || !inbox_.arrivals.empty() || !inbox_.cancels.empty();
  });
  if (stopping_) {
    return false;
  }
  inbox = std::exchange(inbox_, {});
  num_queued_ += std::exchange(num_posted_, 0);
  return true;
}

void ThreadedExecutor::work(Inbox& inbox) {
  for (Arrival& arrival : inbox.arrivals) {
    loop_->add(arrival.id, std::move(arrival.request), arrival.arrival_ms);
  }
  for (const Cancel& cancel : inbox.cancels) {
    if (cancel.sequence < 0) {
      loop_->cancel(cancel.id, FinishReason::kCancelled);
    } else {
      loop_->cancel_sequence(cancel.id, cancel.sequence);
    }
  }
  loop_->step();
}

void ThreadedExecutor::publish() {
  // Counters first: whoever has seen a final response sees its blocks as free.
  {
    const std::lock_guard lock(mutex_);
    num_queued_ = loop_->num_queued();
    kv_cache_stats_ = loop_->kv_cache_stats();
    for (const IterationStats& stats : loop_->take_stats()) {
      stats_.push_back(stats);
    }
    while (stats_.size() > max_stats_) {
      stats_.pop_front();
    }
  }
  responses_.push(loop_->take_responses());
}

}  // namespace zonda::runtime
