// Tokens in, tokens out: a queue and a step thread that run one engine for many requests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zonda/error.h"
#include "zonda/sampling.h"

namespace zonda {

namespace runtime {
class ModelRunner;  // runtime/model_runner.h
}

// Unique for the life of one Executor; 0 is never used.
using RequestId = uint64_t;

enum class FinishReason : uint8_t {
  kNotFinished,
  kEndId,      // one of Request::end_ids
  kStopWords,  // one of SamplingParams::stop_words
  kLength,     // max_tokens, or the sequence limit
  kTimedOut,   // Request::allotted_ms is over
  kCancelled,
};
// "not_finished", "end_id", "stop_words", "length", "timed_out", "cancelled"
const char* finish_reason_name(FinishReason reason);

struct Request {
  std::vector<int32_t> input_token_ids;  // at least one
  SamplingParams sampling;
  std::vector<int32_t>
      end_ids;             // each ends the output unless ignore_eos; the union the model needs
  bool streaming = false;  // a response for each token instead of one at the end
  bool return_context_logits = false;
  bool return_generation_logits = false;
  std::string cache_salt;   // prefixes are shared only between requests of the same salt
  int64_t allotted_ms = 0;  // time from enqueue; 0 is unlimited
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;  // finite: values below -9999 are reported as -9999
};
struct TokenLogprobs {
  TokenLogprob chosen;
  int32_t rank = 0;               // of the chosen token; 1 is the most likely
  std::vector<TokenLogprob> top;  // most likely first, as many as asked
};

// Milliseconds since enqueue; negative if it has not happened.
struct RequestTimings {
  double first_scheduled_ms = -1.0;
  double first_token_ms = -1.0;
  double last_token_ms = -1.0;
  int32_t prompt_tokens = 0;
  int32_t reused_tokens = 0;  // of the prompt, taken from the KV cache
  int32_t preemptions = 0;    // times its sequences were paused and computed again
};

// News about one sequence of a request.
struct Response {
  RequestId request_id = 0;
  int32_t sequence_index = 0;
  // Streaming: the tokens since the previous response of this sequence; otherwise all. The end id
  // or stop word that ended it is included, input tokens are not.
  std::vector<int32_t> token_ids;
  std::vector<TokenLogprobs> logprobs;  // one for each of token_ids if asked
  double cumulative_logprob = 0.0;      // over all tokens so far; if logprobs are asked
  FinishReason finish_reason = FinishReason::kNotFinished;
  int32_t stop_token = -1;         // the last token of what ended it, for kEndId and kStopWords
  bool is_sequence_final = false;  // the last response of this sequence
  bool is_final = false;           // the last response of the request
  std::optional<Error> error;      // then the request is over and nothing above it counts

  // In the first response of a request that asked for them.
  std::vector<TokenLogprobs> prompt_logprobs;  // [prompt tokens - 1], of tokens 1, 2, ...
  std::vector<float> context_logits;           // [prompt tokens, vocab]
  // Beside token_ids if asked: the model's logits that each token was chosen from.
  std::vector<float> generation_logits;  // [token_ids, vocab]
  RequestTimings timings;
};

enum class SchedulerPolicy : uint8_t {
  kGuaranteedNoEvict,  // admits a request when its worst case fits: it never pauses
  kMaxUtilization,     // admits while blocks last; the youngest pause and are computed again
};

// Zero means: the engine's own limit.
struct ExecutorConfig {
  SchedulerPolicy policy = SchedulerPolicy::kGuaranteedNoEvict;
  int32_t max_batch_size = 0;
  int32_t max_num_tokens = 0;
  int32_t max_seq_len = 0;
  int32_t max_chunk_tokens = 0;  // prompt tokens of a request in one step; 0: as many as fit
  bool enable_block_reuse = true;
  int64_t kv_cache_bytes = 0;                // 0: by the fraction
  double kv_cache_free_memory_fraction = 0;  // of memory free after load; 0: the default, 0.9
  int32_t max_queue_size = 4096;  // requests that wait to start; one of n sequences counts n times
  int32_t stats_max_iterations = 1000;
  int32_t num_threads = 0;     // of the engine; 0: all processors this process may use
  bool deterministic = false;  // CUDA kernels whose results do not depend on the batch
  SamplingLimits sampling_limits = {};
};

struct KvCacheStats {
  int32_t max_blocks = 0;
  int32_t free_blocks = 0;  // cached ones included: they give way
  int32_t used_blocks = 0;
  int32_t cached_blocks = 0;  // free, with a prefix that can be reused
  int32_t tokens_per_block = 0;
  int64_t allocated_blocks = 0;  // over the whole life
  int64_t reused_blocks = 0;
};

struct IterationStats {
  int64_t iteration = 0;
  double start_ms = 0.0;  // since the Executor started
  double latency_ms = 0.0;
  int32_t active_requests = 0;
  int32_t queued_requests = 0;
  int32_t completed_requests = 0;  // in this step
  int32_t context_requests = 0;    // sequences in the step
  int32_t generation_requests = 0;
  int32_t paused_requests = 0;  // sequences that lost their blocks in this step
  int32_t context_tokens = 0;
  KvCacheStats kv_cache;
};

// What the engine can do, after the configuration.
struct ExecutorLimits {
  int32_t vocab_size = 0;
  int32_t max_batch_size = 0;
  int32_t max_num_tokens = 0;
  int32_t max_input_len = 0;
  int32_t max_seq_len = 0;
  int32_t tokens_per_block = 0;
  int32_t kv_blocks = 0;
  int64_t kv_bytes = 0;
  int32_t threads = 0;
  std::string instruction_set;  // of the kernels: "avx2", "avx512-vnni", ...
};

// After TensorRT-LLM's Executor. All functions may be called from any thread.
class Executor {
 public:
  using Timeout = std::optional<std::chrono::milliseconds>;  // unset waits for ever

  // `engine_path`: an engine folder or file. Errors of loading it; kCapacity if the KV cache cannot
  // hold one sequence of one block.
  static Result<std::unique_ptr<Executor>> load(const std::string& engine_path,
                                                const ExecutorConfig& config);
  static Result<std::unique_ptr<Executor>> create(std::unique_ptr<runtime::ModelRunner> runner,
                                                  const ExecutorConfig& config);
  virtual ~Executor() = default;  // shutdown()

  // kInvalidArgument: a field is out of range. kCapacity: can never fit, with the numbers; or the
  // queue is full. kCancelled after shutdown().
  virtual Result<RequestId> enqueue(Request request) = 0;

  // Waits until any response is ready or the time is over (then empty); after shutdown() it does
  // not wait. Each response is returned once.
  virtual std::vector<Response> await_responses(Timeout timeout = {}) = 0;
  // The same for one request. kNotFound if the id is unknown or its final response was returned.
  virtual Result<std::vector<Response>> await_responses(RequestId id, Timeout timeout = {}) = 0;
  // One list for each id, in order; waits for each.
  virtual Result<std::vector<std::vector<Response>>> await_responses(std::span<const RequestId> ids,
                                                                     Timeout timeout = {}) = 0;
  virtual size_t num_responses_ready(std::optional<RequestId> id = {}) const = 0;

  // Ends the request (or one of its sequences) within one step; its final response says
  // kCancelled. Unknown and finished ids are ignored.
  virtual void cancel(RequestId id) = 0;
  virtual void cancel_sequence(RequestId id, int32_t sequence_index) = 0;
  // Cancels, and drops every response of the request, present and future.
  virtual void abandon(RequestId id) = 0;

  // Refuses new requests, cancels the others, joins the step thread. Idempotent.
  virtual void shutdown() = 0;
  virtual bool can_enqueue() const = 0;

  // The steps since the last call, oldest first, at most stats_max_iterations.
  virtual std::vector<IterationStats> latest_iteration_stats() = 0;
  virtual KvCacheStats kv_cache_stats() const = 0;
  virtual const ExecutorLimits& limits() const = 0;
};

}  // namespace zonda
