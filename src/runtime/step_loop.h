// The life of requests between queue and responses, one step at a time. No thread, no lock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kvcache/kv_cache_manager.h"
#include "runtime/active_request.h"
#include "runtime/batch.h"
#include "runtime/model_runner.h"
#include "scheduler/scheduler.h"
#include "zonda/executor.h"

namespace zonda::runtime {

using Clock = std::function<double()>;  // milliseconds, never going back

class StepLoop {
 public:
  // `runner` and the clock outlive the loop. kInvalidArgument if `config` asks for more than the
  // runner's limits, kCapacity if the KV cache has no block.
  static Result<std::unique_ptr<StepLoop>> create(ModelRunner& runner, const ExecutorConfig& config,
                                                  Clock clock, uint64_t hash_seed);

  const ExecutorLimits& limits() const { return limits_; }
  // Whether the request is valid and could ever run; gives it its seed and output length. Reads
  // constants only: may be called from any thread.
  Result<void> prepare(Request& request) const;

  // `request` passed prepare(). Whatever goes wrong from here on becomes a response.
  void add(RequestId id, Request request, double arrival_ms);
  void cancel(RequestId id, FinishReason reason);
  void cancel_sequence(RequestId id, int32_t sequence);
  void cancel_all(FinishReason reason);
  // Every request ends with this error, and a step that threw is over.
  void fail_all(const Error& error);

  bool has_work() const { return !requests_.empty(); }
  size_t num_requests() const { return requests_.size(); }
  // Sequences of requests that have not started.
  int32_t num_queued() const { return num_queued_; }
  // Plans, runs and commits one step. Nothing happens if nothing can run.
  void step();

  // What has become ready since the last call.
  std::vector<Response> take_responses() { return std::exchange(responses_, {}); }
  std::vector<IterationStats> take_stats() { return std::exchange(stats_, {}); }
  KvCacheStats kv_cache_stats() const;

 private:
  StepLoop(ModelRunner& runner, const ExecutorConfig& config, const ExecutorLimits& limits,
           Clock clock, uint64_t hash_seed);
  using Requests = std::unordered_map<RequestId, std::unique_ptr<ActiveRequest>>;

  scheduler::Request scheduler_request(RequestId id, const Request& request) const;
  int32_t longest_output(const Request& request) const;
  void end_late_requests();
  void note_plan(const scheduler::StepPlan& plan);
  // How the engine chooses the tokens of the step, by wanted logits row; empty if it chooses none.
  std::span<const kernels::TokenChoice> choices(const scheduler::StepPlan& plan);
  Result<engine::StepOutputs> run(const scheduler::StepPlan& plan);
  void take_row(const scheduler::StepPlan& plan, size_t row, const engine::StepOutputs& outputs,
                scheduler::StepResult& result);
  // `begin`: the row's first logits row of the step.
  Result<void> take_outputs(ActiveRequest& request, const scheduler::PlanRow& row, size_t begin,
                            const engine::StepOutputs& outputs, scheduler::StepResult& result);
  Result<void> take_prompt_rows(ActiveRequest& request, const scheduler::PlanRow& row,
                                std::span<const float> logits);
  Result<void> take_samples(ActiveRequest& request, const scheduler::PlanRow& row,
                            std::span<const float> logits, scheduler::StepResult& result);
  Result<void> take_chosen(ActiveRequest& request, int32_t sequence,
                           const kernels::ChosenToken& chosen, std::span<const float> logits,
                           scheduler::StepResult& result);
  void finish_prompt_only(ActiveRequest& request, const scheduler::PlanRow& row);
  void fail(RequestId id, const Error& error);
  std::vector<RequestId> all_ids() const;
  void forget(Requests::iterator at);
  void record_stats(const scheduler::StepPlan& plan, double start_ms);

  ModelRunner& runner_;
  ExecutorLimits limits_;
  SamplingLimits sampling_limits_;
  Clock clock_;
  // The scheduler's sequences give their blocks back before the cache ends.
  kvcache::KvCacheManager kv_cache_;
  scheduler::Scheduler scheduler_;
  Batch batch_;
  std::vector<kernels::TokenChoice> choices_;  // [logits rows] of the step
  kernels::ChoiceScratch scratch_;
  std::vector<int32_t> prompt_lengths_;  // [rows] of the step
  Requests requests_;
  int32_t num_queued_ = 0;
  int32_t num_with_deadline_ = 0;
  int32_t num_completed_ = 0;  // since the last step
  int64_t iteration_ = 0;
  scheduler::StepId open_step_ = 0;  // planned and not committed; 0: none
  std::vector<Response> responses_;
  std::vector<IterationStats> stats_;
};

}  // namespace zonda::runtime
