// Executor with its own step thread over a StepLoop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/model_runner.h"
#include "runtime/response_queue.h"
#include "runtime/step_loop.h"
#include "zonda/executor.h"

namespace zonda::runtime {

class ThreadedExecutor final : public Executor {
 public:
  ThreadedExecutor(std::unique_ptr<ModelRunner> runner, std::unique_ptr<StepLoop> loop,
                   const ExecutorConfig& config, Clock clock);
  ~ThreadedExecutor() override;

  Result<RequestId> enqueue(Request request) override;
  std::vector<Response> await_responses(Timeout timeout) override;
  Result<std::vector<Response>> await_responses(RequestId id, Timeout timeout) override;
  Result<std::vector<std::vector<Response>>> await_responses(std::span<const RequestId> ids,
                                                             Timeout timeout) override;
  size_t num_responses_ready(std::optional<RequestId> id) const override;
  void cancel(RequestId id) override;
  void cancel_sequence(RequestId id, int32_t sequence_index) override;
  void abandon(RequestId id) override;
  void shutdown() override;
  bool can_enqueue() const override;
  std::vector<IterationStats> latest_iteration_stats() override;
  KvCacheStats kv_cache_stats() const override;
  const ExecutorLimits& limits() const override { return loop_->limits(); }

 private:
  struct Arrival {
    RequestId id = 0;
    Request request;
    double arrival_ms = 0.0;
  };
  struct Cancel {
    RequestId id = 0;
    int32_t sequence = -1;  // -1: all
  };
  struct Inbox {
    std::vector<Arrival> arrivals;
    std::vector<Cancel> cancels;
  };

  void run();
  // Blocks while there is nothing to do; false once shutdown() was called.
  bool next_inbox(Inbox& inbox);
  void work(Inbox& inbox);
  void publish();
  void post_cancel(Cancel cancel);

  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<StepLoop> loop_;  // the step thread's, but for its constants
  const int32_t max_queue_size_;
  const size_t max_stats_;
  Clock clock_;
  ResponseQueue responses_;

  mutable std::mutex mutex_;  // of the members below
  std::condition_variable inbox_changed_;
  Inbox inbox_;
  int32_t num_posted_ = 0;  // sequences in the inbox
  int32_t num_queued_ = 0;  // sequences that the loop has not started
  RequestId last_id_ = 0;
  bool stopping_ = false;
  std::deque<IterationStats> stats_;
  KvCacheStats kv_cache_stats_;

  std::mutex join_mutex_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace zonda::runtime
