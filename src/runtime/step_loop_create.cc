// StepLoop: limits of a run, and what a request must satisfy to be accepted.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <utility>

#include "base/error.h"
#include "runtime/step_loop.h"

namespace zonda::runtime {
namespace {

// `asked` 0 means all of `limit`.
Result<int32_t> within(const char* field, int32_t asked, int32_t limit) {
  if (asked < 0 || asked > limit) {
    return invalid_argument("[executor] {} is {}; the engine's limit is {}.", field, asked, limit);
  }
  return asked == 0 ? limit : asked;
}

Result<ExecutorLimits> resolve(const RunnerLimits& runner, const ExecutorConfig& config) {
  const auto batch = within("max_batch_size", config.max_batch_size, runner.max_batch_size);
  const auto tokens = within("max_num_tokens", config.max_num_tokens, runner.max_num_tokens);
  const auto length = within("max_seq_len", config.max_seq_len, runner.max_seq_len);
  for (const auto* limit : {&batch, &tokens, &length}) {
    if (!*limit) {
      return limit->error();
    }
  }
  if (config.max_chunk_tokens < 0 || config.max_queue_size < 1 || config.stats_max_iterations < 0) {
    return invalid_argument(
        "[executor] max_chunk_tokens {}, max_queue_size {} and stats_max_iterations {} must be at "
        "least 0, 1 and 0.",
        config.max_chunk_tokens, config.max_queue_size, config.stats_max_iterations);
  }
  if (runner.num_kv_blocks < 1) {
    return over_capacity("[executor] the KV cache has {} blocks; at least 1 is needed.",
                         runner.num_kv_blocks);
  }
  ExecutorLimits limits;
  limits.vocab_size = runner.vocab_size;
  limits.max_batch_size = *batch;
  limits.max_num_tokens = *tokens;
  limits.max_seq_len = *length;
  limits.max_input_len = std::min(runner.max_input_len, limits.max_seq_len);
  limits.tokens_per_block = runner.tokens_per_block;
  limits.kv_blocks = runner.num_kv_blocks;
  limits.kv_bytes = runner.num_kv_blocks * runner.kv_block_bytes;
  limits.threads = runner.threads;
  limits.instruction_set = runner.instruction_set;
  return limits;
}

scheduler::SchedulerConfig scheduler_config(const ExecutorLimits& limits,
                                            const ExecutorConfig& config) {
  return {
      .policy = config.policy == SchedulerPolicy::kMaxUtilization
                    ? scheduler::Policy::kMaxUtilization
                    : scheduler::Policy::kGuaranteedNoEvict,
      .max_batch_size = limits.max_batch_size,
      .max_num_tokens = limits.max_num_tokens,
      .max_input_len = limits.max_input_len,
      .max_seq_len = limits.max_seq_len,
      .max_chunk_tokens = config.max_chunk_tokens,
  };
}

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

Result<std::unique_ptr<StepLoop>> StepLoop::create(ModelRunner& runner,
                                                   const ExecutorConfig& config, Clock clock,
                                                   uint64_t hash_seed) {
  const auto limits = resolve(runner.limits(), config);
  if (!limits) {
    return limits.error();
  }
  return std::unique_ptr<StepLoop>(
      new StepLoop(runner, config, *limits, std::move(clock), hash_seed));
}

StepLoop::StepLoop(ModelRunner& runner, const ExecutorConfig& config, const ExecutorLimits& limits,
                   Clock clock, uint64_t hash_seed)
    : runner_(runner),
      limits_(limits),
      sampling_limits_(config.sampling_limits),
      clock_(std::move(clock)),
      kv_cache_({.num_blocks = limits.kv_blocks,
                 .tokens_per_block = limits.tokens_per_block,
                 .enable_reuse = config.enable_block_reuse,
                 .hash_seed = hash_seed}),
      scheduler_(scheduler_config(limits, config), kv_cache_) {}

Result<void> StepLoop::prepare(Request& request) const {
  if (auto valid = validate(request.sampling, limits_.vocab_size, sampling_limits_); !valid) {
    return valid;
  }
  for (const auto* ids : {&request.input_token_ids, &request.end_ids}) {
    for (const int32_t token : *ids) {
      if (token < 0 || token >= limits_.vocab_size) {
        return invalid_argument("[executor] {} has token {}; ids are 0 to {}.",
                                ids == &request.end_ids ? "end_ids" : "input_token_ids", token,
                                limits_.vocab_size - 1);
      }
    }
  }
  if (request.allotted_ms < 0) {
    return invalid_argument("[executor] allotted_ms is {}; at least 0.", request.allotted_ms);
  }
  if (!request.sampling.max_tokens.has_value()) {
    request.sampling.max_tokens = longest_output(request);
  }
  if (!request.sampling.seed.has_value() && !request.sampling.is_greedy()) {
    request.sampling.seed = random_seed();
  }
  return scheduler_.check(scheduler_request(0, request));
}

// The most tokens that sequence limit and KV cache allow; 1 if not even that fits, so that the
// check names what is missing.
int32_t StepLoop::longest_output(const Request& request) const {
  scheduler::Request probe = scheduler_request(0, request);
  int32_t low = 1;
  int32_t high = std::max(limits_.max_seq_len - static_cast<int32_t>(probe.prompt.size()), 1);
  while (low < high) {
    const int32_t middle = low + (high - low + 1) / 2;
    probe.max_new_tokens = middle;
    if (scheduler_.check(probe).ok()) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace zonda::runtime
