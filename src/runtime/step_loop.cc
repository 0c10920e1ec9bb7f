// StepLoop: schedule, run, sample, commit; every fault ends the requests it concerns and no other.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/step_loop.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace zonda::runtime {

void StepLoop::add(RequestId id, Request request, double arrival_ms) {
  scheduler::Request to_schedule = scheduler_request(id, request);
  const int32_t max_new = to_schedule.max_new_tokens;
  num_queued_ += request.sampling.n;
  num_with_deadline_ += request.allotted_ms > 0 ? 1 : 0;
  requests_.emplace(id,
                    std::make_unique<ActiveRequest>(id, std::move(request), max_new, arrival_ms));
  if (auto added = scheduler_.add(std::move(to_schedule)); !added) {
    fail(id, added.error());
  }
}

scheduler::Request StepLoop::scheduler_request(RequestId id, const Request& request) const {
  const auto prompt = static_cast<int32_t>(request.input_token_ids.size());
  scheduler::Request result;
  result.id = id;
  result.prompt = request.input_token_ids;
  result.max_new_tokens = request.sampling.max_tokens.value_or(0);
  result.num_sequences = request.sampling.n;
  result.all_prompt_logits =
      request.return_context_logits || request.sampling.prompt_logprobs.has_value();
  result.cache_salt =
      hash128(std::as_bytes(std::span(request.cache_salt)), runner_.cache_key(prompt));
  return result;
}

void StepLoop::cancel(RequestId id, FinishReason reason) {
  const auto at = requests_.find(id);
  if (at == requests_.end()) {
    return;
  }
  scheduler_.cancel(id);
  for (int32_t i = 0; i < at->second->request().sampling.n; ++i) {
    at->second->finish(i, reason);
    at->second->append_response(i, responses_);
  }
  forget(at);
}

void StepLoop::cancel_sequence(RequestId id, int32_t sequence) {
  const auto at = requests_.find(id);
  if (at == requests_.end() || sequence < 0 || sequence >= at->second->request().sampling.n) {
    return;
  }
  scheduler_.cancel_sequence({id, sequence});
  at->second->finish(sequence, FinishReason::kCancelled);
  at->second->append_response(sequence, responses_);
  if (at->second->is_done()) {
    forget(at);
  }
}

void StepLoop::fail(RequestId id, const Error& error) {
  const auto at = requests_.find(id);
  if (at == requests_.end()) {
    return;
  }
  scheduler_.cancel(id);
  Response response;
  response.request_id = id;
  response.is_sequence_final = true;
  response.is_final = true;
  response.error = error;
  responses_.push_back(std::move(response));
  forget(at);
}

void StepLoop::fail_all(const Error& error) {
  for (const RequestId id : all_ids()) {
    fail(id, error);
  }
  if (open_step_ != 0) {
    scheduler_.commit({.step = std::exchange(open_step_, 0), .sequences = {}, .tokens = {}});
  }
}

void StepLoop::cancel_all(FinishReason reason) {
  for (const RequestId id : all_ids()) {
    cancel(id, reason);
  }
}

std::vector<RequestId> StepLoop::all_ids() const {
  std::vector<RequestId> ids;
  for (const auto& [id, request] : requests_) {
    ids.push_back(id);
  }
  std::ranges::sort(ids);
  return ids;
}

void StepLoop::forget(Requests::iterator at) {
  const ActiveRequest& request = *at->second;
  num_queued_ -= request.has_started() ? 0 : request.request().sampling.n;
  num_with_deadline_ -= request.request().allotted_ms > 0 ? 1 : 0;
  ++num_completed_;
  requests_.erase(at);
}

void StepLoop::end_late_requests() {
  if (num_with_deadline_ == 0) {
    return;
  }
  const double now = clock_();
  std::vector<RequestId> late;
  for (const auto& [id, request] : requests_) {
    if (request->is_late(now)) {
      late.push_back(id);
    }
  }
  std::ranges::sort(late);
  for (const RequestId id : late) {
    cancel(id, FinishReason::kTimedOut);
  }
}

void StepLoop::step() {
  const double start_ms = clock_();
  end_late_requests();
  const scheduler::StepPlan plan = scheduler_.next_step();
  open_step_ = plan.step;
  note_plan(plan);
  if (plan.empty()) {
    if (plan.paused.empty()) {
      fail_all(internal_error("[executor] {} requests wait and none can run.", requests_.size()));
    }
    return;
  }
  scheduler::StepResult result{.step = plan.step, .sequences = {}, .tokens = {}};
  const auto outputs = run(plan);
  for (size_t row = 0; row < plan.rows.size(); ++row) {
    if (outputs) {
      take_row(plan, row, *outputs, result);
    } else {
      fail(plan.rows[row].key.request, outputs.error());
    }
  }
  open_step_ = 0;
  scheduler_.commit(result);
  record_stats(plan, start_ms);
}

void StepLoop::note_plan(const scheduler::StepPlan& plan) {
  for (const scheduler::SequenceKey& key : plan.paused) {
    requests_.at(key.request)->note_paused();
  }
  prompt_lengths_.clear();
  const double now = clock_();
  for (const scheduler::PlanRow& row : plan.rows) {
    ActiveRequest& request = *requests_.at(row.key.request);
    num_queued_ -= request.has_started() ? 0 : request.request().sampling.n;
    request.note_scheduled(now, row.num_reused);
    prompt_lengths_.push_back(request.prompt_length());
  }
}

// Several sequences that draw from one row, and requests that need logits, are left to
// take_samples(): which way a request takes depends on nothing but itself.
std::span<const kernels::TokenChoice> StepLoop::choices(const scheduler::StepPlan& plan) {
  choices_.clear();
  bool any = false;
  for (const scheduler::PlanRow& row : plan.rows) {
    choices_.resize(choices_.size() + static_cast<size_t>(row.num_logits));
    const auto at = requests_.find(row.key.request);
    if (row.num_samples == 1 && row.num_logits == 1 && at != requests_.end() &&
        !at->second->needs_logits()) {
      choices_.back() = at->second->choice(row.key.sequence);
      any = true;
    }
  }
  return any ? choices_ : std::span<const kernels::TokenChoice>();
}

Result<engine::StepOutputs> StepLoop::run(const scheduler::StepPlan& plan) {
  for (const kvcache::BlockCopy& copy : plan.copies) {
    runner_.copy_block(copy.from, copy.to);
  }
  batch_.fill(plan, prompt_lengths_);
  engine::BatchInputs inputs = batch_.inputs();
  inputs.choices = choices(plan);
  auto outputs = runner_.run(inputs);
  if (outputs && outputs->chosen.size() != inputs.choices.size()) {
    return internal_error("[executor] the engine chose {} tokens for {} rows.",
                          outputs->chosen.size(), inputs.choices.size());
  }
  const size_t expected = inputs.logits_rows.size() * static_cast<size_t>(limits_.vocab_size);
  const bool all_chosen = std::ranges::none_of(
      inputs.choices, [](const auto& choice) { return choice.mode == kernels::ChoiceMode::kNone; });
  if (outputs && (inputs.choices.empty() || !all_chosen) && outputs->logits.size() != expected) {
    return internal_error("[executor] the engine returned {} logits, expected {}.",
                          outputs->logits.size(), expected);
  }
  return outputs;
}

void StepLoop::take_row(const scheduler::StepPlan& plan, size_t row_index,
                        const engine::StepOutputs& outputs, scheduler::StepResult& result) {
  const scheduler::PlanRow& row = plan.rows[row_index];
  const auto at = requests_.find(row.key.request);
  if (at == requests_.end()) {
    return;  // it failed in an earlier row of this step
  }
  ActiveRequest& request = *at->second;
  const auto begin = static_cast<size_t>(batch_.logits_begin(row_index));
  const Result<void> taken =
      row.num_logits > 0 ? take_outputs(request, row, begin, outputs, result) : Result<void>();
  if (!taken) {
    fail(request.id(), taken.error());
    return;
  }
  finish_prompt_only(request, row);
  const int32_t first = row.num_samples > 1 ? 0 : row.key.sequence;
  for (int32_t i = 0; i < row.num_samples; ++i) {
    request.append_response(first + i, responses_);
  }
  if (request.is_done()) {
    forget(at);
  }
}

// What a request asks for may be too large: that is its own fault.
Result<void> StepLoop::take_outputs(ActiveRequest& request, const scheduler::PlanRow& row,
                                    size_t begin, const engine::StepOutputs& outputs,
                                    scheduler::StepResult& result) {
  try {
    if (!choices_.empty() && choices_[begin].mode != kernels::ChoiceMode::kNone) {
      return take_chosen(request, row.key.sequence, outputs.chosen[begin], {}, result);
    }
    const auto vocab = static_cast<size_t>(limits_.vocab_size);
    const auto logits =
        outputs.logits.subspan(begin * vocab, static_cast<size_t>(row.num_logits) * vocab);
    auto taken = take_prompt_rows(request, row, logits);
    if (taken && row.num_samples > 0) {
      taken = take_samples(request, row, logits.last(vocab), result);
    }
    return taken;
  } catch (const std::bad_alloc&) {
    return over_capacity("[executor] no memory is left for the outputs of request {}.",
                         request.id());
  }
}

Result<void> StepLoop::take_prompt_rows(ActiveRequest& request, const scheduler::PlanRow& row,
                                        std::span<const float> logits) {
  const auto vocab = static_cast<size_t>(limits_.vocab_size);
  const int32_t end = row.start_position + row.num_tokens;
  const bool wanted = request.request().return_context_logits ||
                      request.request().sampling.prompt_logprobs.has_value();
  for (int32_t i = 0; wanted && i < row.num_logits; ++i) {
    const int32_t position = end - row.num_logits + i;
    if (position >= request.prompt_length()) {
      break;
    }
    auto taken = request.take_prompt_row(logits.subspan(static_cast<size_t>(i) * vocab, vocab),
                                         position, scratch_.rows);
    if (!taken) {
      return taken;
    }
  }
  return {};
}

Result<void> StepLoop::take_samples(ActiveRequest& request, const scheduler::PlanRow& row,
                                    std::span<const float> logits, scheduler::StepResult& result) {
  const int32_t first = row.num_samples > 1 ? 0 : row.key.sequence;
  for (int32_t i = first; i < first + row.num_samples; ++i) {
    const kernels::ChosenToken chosen =
        request.is_finished(i) ? kernels::ChosenToken{}
                               : kernels::choose_token(request.choice(i), logits, scratch_);
    if (auto taken = take_chosen(request, i, chosen, logits, result); !taken) {
      return taken;
    }
  }
  return {};
}

Result<void> StepLoop::take_chosen(ActiveRequest& request, int32_t sequence,
                                   const kernels::ChosenToken& chosen,
                                   std::span<const float> logits, scheduler::StepResult& result) {
  if (request.is_finished(sequence)) {
    return {};  // cancelled before its first token
  }
  const auto token = request.take_chosen(sequence, chosen, logits, clock_());
  if (!token) {
    return token.error();
  }
  result.sequences.push_back({{request.id(), sequence}, 1, request.is_finished(sequence)});
  result.tokens.push_back(*token);
  return {};
}

void StepLoop::finish_prompt_only(ActiveRequest& request, const scheduler::PlanRow& row) {
  if (request.max_new_tokens() > 0 ||
      row.start_position + row.num_tokens < request.prompt_length()) {
    return;
  }
  for (int32_t i = 0; i < request.request().sampling.n; ++i) {
    request.finish(i, FinishReason::kLength);
    request.append_response(i, responses_);
  }
}

void StepLoop::record_stats(const scheduler::StepPlan& plan, double start_ms) {
  const auto context = plan.num_context_rows;
  IterationStats stats;
  stats.iteration = ++iteration_;
  stats.start_ms = start_ms;
  stats.latency_ms = clock_() - start_ms;
  stats.active_requests =
      static_cast<int32_t>(requests_.size()) - scheduler_.stats().waiting_requests;
  stats.queued_requests = scheduler_.stats().waiting_requests;
  stats.completed_requests = std::exchange(num_completed_, 0);
  stats.context_requests = context;
  stats.generation_requests = static_cast<int32_t>(plan.rows.size()) - context;
  stats.paused_requests = static_cast<int32_t>(plan.paused.size());
  stats.context_tokens = plan.num_context_tokens;
  stats.kv_cache = kv_cache_stats();
  stats_.push_back(stats);
}

KvCacheStats StepLoop::kv_cache_stats() const {
  const kvcache::KvCacheStats from = kv_cache_.stats();
  return {
      .max_blocks = from.num_blocks,
      .free_blocks = from.free_blocks,
      .used_blocks = from.used_blocks,
      .cached_blocks = from.cached_blocks,
      .tokens_per_block = kv_cache_.tokens_per_block(),
      .allocated_blocks = from.allocated_blocks,
      .reused_blocks = from.reused_blocks,
  };
}

}  // namespace zonda::runtime
