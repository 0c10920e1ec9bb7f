// An Executor that answers each request with prepared responses and notes what it is asked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "zonda/executor.h"

namespace zonda::test {

class ScriptedExecutor : public Executor {
 public:
  std::vector<Response> script;   // of every request; ids are filled in
  std::optional<Error> refusal;   // of enqueue
  std::vector<Request> requests;  // as they came
  std::set<RequestId> cancelled;
  std::set<RequestId> abandoned;
  std::vector<int32_t> cancelled_sequences;
  bool is_shut_down = false;

  Result<RequestId> enqueue(Request request) override {
    if (refusal) {
      return *refusal;
    }
    requests.push_back(std::move(request));
    const RequestId id = requests.size();
    for (Response response : script) {
      response.request_id = id;
      queues_[id].push_back(std::move(response));
    }
    return id;
  }

  std::vector<Response> await_responses(Timeout) override { return {}; }
  // One response a call, so that a stream sees every boundary.
  Result<std::vector<Response>> await_responses(RequestId id, Timeout) override {
    std::deque<Response>& queue = queues_[id];
    if (queue.empty()) {
      return not_found("[test] request {} is over.", id);
    }
    Response response = std::move(queue.front());
    queue.pop_front();
    return std::vector<Response>{std::move(response)};
  }
  Result<std::vector<std::vector<Response>>> await_responses(std::span<const RequestId>,
                                                             Timeout) override {
    return std::vector<std::vector<Response>>{};
  }
  size_t num_responses_ready(std::optional<RequestId>) const override { return 0; }
  void cancel(RequestId id) override { cancelled.insert(id); }
  void cancel_sequence(RequestId, int32_t sequence) override {
    cancelled_sequences.push_back(sequence);
  }
  void abandon(RequestId id) override { abandoned.insert(id); }
  void shutdown() override { is_shut_down = true; }
  bool can_enqueue() const override { return !is_shut_down; }
  std::vector<IterationStats> latest_iteration_stats() override { return {}; }
  KvCacheStats kv_cache_stats() const override { return {}; }
  const ExecutorLimits& limits() const override { return limits_; }

 private:
  std::map<RequestId, std::deque<Response>> queues_;
  ExecutorLimits limits_;
};

// One token, and perhaps the end.
inline Response token_response(int32_t id, FinishReason reason = FinishReason::kNotFinished,
                               int32_t sequence = 0, bool is_final = true) {
  Response response;
  response.sequence_index = sequence;
  response.token_ids = {id};
  response.finish_reason = reason;
  response.is_sequence_final = reason != FinishReason::kNotFinished;
  response.is_final = response.is_sequence_final && is_final;
  response.stop_token = reason == FinishReason::kEndId ? id : -1;
  return response;
}

}  // namespace zonda::test
