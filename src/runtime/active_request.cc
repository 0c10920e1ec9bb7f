// ActiveRequest: from rows of logits to tokens, log-probabilities and responses.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/active_request.h"

#include <utility>

#include "base/error.h"
#include "runtime/stop_conditions.h"

namespace zonda::runtime {

ActiveRequest::ActiveRequest(RequestId id, Request request, int32_t max_new_tokens,
                             double arrival_ms)
    : id_(id),
      request_(std::move(request)),
      max_new_tokens_(max_new_tokens),
      arrival_ms_(arrival_ms) {
  sequences_.reserve(static_cast<size_t>(request_.sampling.n));
  for (int32_t i = 0; i < request_.sampling.n; ++i) {
    sequences_.emplace_back(
        Sampler(request_.sampling, request_.end_ids, request_.input_token_ids, i));
  }
  timings_.prompt_tokens = prompt_length();
}

bool ActiveRequest::is_late(double now_ms) const {
  return request_.allotted_ms > 0 &&
         now_ms - arrival_ms_ >= static_cast<double>(request_.allotted_ms);
}

void ActiveRequest::note_scheduled(double now_ms, int32_t reused_tokens) {
  if (!has_started()) {
    timings_.first_scheduled_ms = now_ms - arrival_ms_;
    timings_.reused_tokens = reused_tokens;
  }
}

Result<void> ActiveRequest::take_prompt_row(std::span<const float> logits, int32_t position,
                                            kernels::SampleScratch& scratch) {
  if (request_.return_context_logits) {
    context_logits_.insert(context_logits_.end(), logits.begin(), logits.end());
  }
  if (request_.sampling.prompt_logprobs.has_value() && position + 1 < prompt_length()) {
    const int32_t token = request_.input_token_ids[static_cast<size_t>(position) + 1];
    const auto row =
        kernels::row_logprobs(logits, token, *request_.sampling.prompt_logprobs, scratch);
    if (!row) {
      return row.error();
    }
    prompt_logprobs_.push_back(token_logprobs(token, *row));
  }
  return {};
}

bool ActiveRequest::needs_logits() const {
  return request_.sampling.prompt_logprobs.has_value() || request_.return_context_logits ||
         request_.return_generation_logits;
}

Result<int32_t> ActiveRequest::take_chosen(int32_t sequence, const kernels::ChosenToken& chosen,
                                           std::span<const float> logits, double now_ms) {
  Sequence& to = at(sequence);
  CHECK(to.reason == FinishReason::kNotFinished);
  if (!chosen.token) {
    return chosen.token;
  }
  if (request_.sampling.logprobs.has_value()) {
    to.logprobs.push_back(token_logprobs(*chosen.token, chosen.logprobs));
    to.cumulative_logprob += static_cast<double>(to.logprobs.back().chosen.logprob);
  }
  if (request_.return_generation_logits) {
    to.generation_logits.insert(to.generation_logits.end(), logits.begin(), logits.end());
  }
  to.sampler.accept(*chosen.token);
  timings_.last_token_ms = now_ms - arrival_ms_;
  if (timings_.first_token_ms < 0) {
    timings_.first_token_ms = timings_.last_token_ms;
  }
  finish(sequence,
         finish_reason(request_.sampling, request_.end_ids, max_new_tokens_, to.sampler.output()));
  return chosen.token;
}

void ActiveRequest::finish(int32_t sequence, FinishReason reason) {
  Sequence& ending = at(sequence);
  if (reason != FinishReason::kNotFinished && ending.reason == FinishReason::kNotFinished) {
    ending.reason = reason;
    ++num_finished_;
  }
}

void ActiveRequest::append_response(int32_t sequence, std::vector<Response>& responses) {
  Sequence& from = at(sequence);
  const auto output = from.sampler.output();
  const bool final = from.reason != FinishReason::kNotFinished;
  if (from.final_sent || (!final && !(request_.streaming && output.size() > from.num_sent))) {
    return;
  }
  Response response;
  response.request_id = id_;
  response.sequence_index = sequence;
  response.token_ids.assign(output.begin() + static_cast<ptrdiff_t>(from.num_sent), output.end());
  response.logprobs = std::exchange(from.logprobs, {});
  response.cumulative_logprob = from.cumulative_logprob;
  response.generation_logits = std::exchange(from.generation_logits, {});
  response.finish_reason = from.reason;
  if (from.reason == FinishReason::kEndId || from.reason == FinishReason::kStopWords) {
    response.stop_token = output.back();
  }
  response.is_sequence_final = final;
  from.num_sent = output.size();
  from.final_sent = final;
  num_final_sent_ += final ? 1 : 0;
  response.is_final = num_final_sent_ == request_.sampling.n;
  response.prompt_logprobs = std::exchange(prompt_logprobs_, {});
  response.context_logits = std::exchange(context_logits_, {});
  response.timings = timings_;
  responses.push_back(std::move(response));
}

}  // namespace zonda::runtime
