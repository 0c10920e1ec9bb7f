// A request while the step loop works on it: its sequences, and what its owner has not seen yet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/sampler.h"
#include "zonda/executor.h"

namespace zonda::runtime {

class ActiveRequest {
 public:
  // `max_new_tokens`: as admitted; `arrival_ms`: on the loop's clock.
  ActiveRequest(RequestId id, Request request, int32_t max_new_tokens, double arrival_ms);
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

  RequestId id() const { return id_; }
  const Request& request() const { return request_; }
  int32_t prompt_length() const { return static_cast<int32_t>(request_.input_token_ids.size()); }
  int32_t max_new_tokens() const { return max_new_tokens_; }
  bool has_started() const { return timings_.first_scheduled_ms >= 0; }
  // Unfinished for longer than allowed.
  bool is_late(double now_ms) const;

  void note_scheduled(double now_ms, int32_t reused_tokens);
  void note_paused() { ++timings_.preemptions; }

  // Logits of the prompt's positions, in order: for log-probabilities and context logits.
  Result<void> take_prompt_row(std::span<const float> logits, int32_t position,
                               kernels::SampleScratch& scratch);
  // Whether the sequences need a step's logits themselves, not only what is chosen from them.
  bool needs_logits() const;
  // How the next token of a sequence is chosen. Valid until its next call.
  kernels::TokenChoice choice(int32_t sequence) { return at(sequence).sampler.choice(); }
  // Takes the next token of a sequence as chosen, and decides whether it ends. `logits`: those of
  // the row, if needed. The token, or why there is none.
  Result<int32_t> take_chosen(int32_t sequence, const kernels::ChosenToken& chosen,
                              std::span<const float> logits, double now_ms);
  // Ends a sequence; nothing happens if it has ended.
  void finish(int32_t sequence, FinishReason reason);
  bool is_finished(int32_t sequence) const {
    return at(sequence).reason != FinishReason::kNotFinished;
  }
  bool is_done() const { return num_finished_ == request_.sampling.n; }

  // The sequence's news, if it is due: a new token of a stream, or its end. At most once a change.
  void append_response(int32_t sequence, std::vector<Response>& responses);

 private:
  struct Sequence {
    explicit Sequence(Sampler from) : sampler(std::move(from)) {}
    Sampler sampler;
    FinishReason reason = FinishReason::kNotFinished;
    size_t num_sent = 0;  // output tokens that responses have carried
    bool final_sent = false;
    double cumulative_logprob = 0.0;
    std::vector<TokenLogprobs> logprobs;   // not yet sent
    std::vector<float> generation_logits;  // [not yet sent, vocab]
  };
  Sequence& at(int32_t index) { return sequences_[static_cast<size_t>(index)]; }
  const Sequence& at(int32_t index) const { return sequences_[static_cast<size_t>(index)]; }

  RequestId id_;
  Request request_;  // samplers refer to it
  int32_t max_new_tokens_;
  double arrival_ms_;
  std::vector<Sequence> sequences_;  // [n]
  int32_t num_finished_ = 0;
  int32_t num_final_sent_ = 0;
  RequestTimings timings_;
  std::vector<TokenLogprobs> prompt_logprobs_;  // until the first response
  std::vector<float> context_logits_;
};

}  // namespace zonda::runtime
