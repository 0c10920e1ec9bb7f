// Requests of random lengths, options and cancels through one Executor: every one ends as it must,
// and nothing is left behind. Usage: requests_soak ENGINE REQUESTS SEED
// Exit code 1 with what was wrong. SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device_memory.h"
#include "zonda/executor.h"

namespace zonda::test {
namespace {

constexpr size_t kMostWaiting = 256;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "requests_soak: %s\n", message.c_str());
  std::exit(1);
}

struct Resources {
  int64_t resident = 0;  // bytes
  int64_t files = 0;
  int64_t threads = 0;
  int64_t device_free = 0;  // bytes

  static Resources now() {
    const auto count = [](const char* folder) {
      return static_cast<int64_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
    };
    std::ifstream statm("/proc/self/statm");
    int64_t pages = 0;
    int64_t resident = 0;
    statm >> pages >> resident;
    return {resident * sysconf(_SC_PAGESIZE), count("/proc/self/fd"), count("/proc/self/task"),
            free_device_memory()};
  }
};

class Soak {
 public:
  Soak(Executor& executor, uint64_t seed) : executor_(executor), random_(seed) {}

  void run(int64_t requests) {
    for (int64_t i = 0; i < requests; ++i) {
      add();
      while (open_.size() >= kMostWaiting) {
        take(executor_.await_responses());
      }
      cancel_some();
      take(executor_.await_responses(std::chrono::milliseconds(0)));
    }
    while (!open_.empty()) {
      take(executor_.await_responses());
    }
    if (const KvCacheStats stats = executor_.kv_cache_stats(); stats.used_blocks != 0) {
      fail(std::to_string(stats.used_blocks) + " cache blocks are used by nobody");
    }
  }
  int64_t tokens() const { return tokens_; }
  int64_t cancelled() const { return cancelled_; }

 private:
  struct Open {
    Request request;
    std::vector<std::vector<int32_t>> output;  // by sequence
    std::vector<bool> ended;
    bool cancelled = false;
  };

  int32_t below(int64_t bound) {
    return static_cast<int32_t>(random_() % static_cast<uint64_t>(std::max<int64_t>(bound, 1)));
  }
  bool one_in(int32_t count) { return below(count) == 0; }

  Request make() {
    const ExecutorLimits& limits = executor_.limits();
    const int32_t longest = std::min({limits.max_input_len, limits.max_seq_len - 64, 512});
    Request request;
    request.input_token_ids.resize(static_cast<size_t>(1 + below(one_in(8) ? longest : 48)));
    for (int32_t& token : request.input_token_ids) {
      token = below(limits.vocab_size);
    }
    SamplingParams& sampling = request.sampling;
    sampling.max_tokens = 1 + below(one_in(8) ? 60 : 16);
    sampling.n = one_in(10) ? 1 + below(std::min(4, limits.max_batch_size)) : 1;
    sampling.seed = random_();
    sampling.temperature = one_in(2) ? 0.0f : 0.8f;
    if (one_in(3)) {
      sampling.top_k = below(100);
      sampling.top_p = 0.9f;
    }
    if (one_in(5)) {
      sampling.repetition_penalty = 1.2f;
      sampling.frequency_penalty = 0.3f;
    }
    if (one_in(6)) {
      sampling.logit_bias = {{below(limits.vocab_size), 4.0f}, {below(limits.vocab_size), -4.0f}};
      sampling.bad_words = {{below(limits.vocab_size)}};
    }
    if (one_in(6)) {
      sampling.logprobs = below(21);
    }
    if (one_in(9)) {
      sampling.no_repeat_ngram_size = 2;
    }
    request.end_ids = {below(limits.vocab_size)};
    request.streaming = one_in(2);
    request.return_generation_logits = one_in(40);
    request.allotted_ms = one_in(50) ? 5 : 0;
    return request;
  }

  void add() {
    Request request = make();
    Open open{.request = request,
              .output = std::vector<std::vector<int32_t>>(static_cast<size_t>(request.sampling.n)),
              .ended = std::vector<bool>(static_cast<size_t>(request.sampling.n))};
    const Result<RequestId> id = executor_.enqueue(std::move(request));
    if (!id) {
      fail("a request was refused: " + id.error().message);
    }
    open_.emplace(*id, std::move(open));
  }

  void cancel_some() {
    if (!one_in(10) || open_.empty()) {
      return;
    }
    auto at = open_.begin();
    std::advance(at, below(static_cast<int64_t>(open_.size())));
    at->second.cancelled = true;
    ++cancelled_;
    if (one_in(4)) {
      executor_.abandon(at->first);
      open_.erase(at);
    } else if (one_in(3)) {
      executor_.cancel_sequence(at->first, below(at->second.request.sampling.n));
    } else {
      executor_.cancel(at->first);
    }
  }

  void take(const std::vector<Response>& responses) {
    for (const Response& response : responses) {
      take(response);
    }
  }

  void take(const Response& response) {
    const auto at = open_.find(response.request_id);
    if (at == open_.end()) {
      fail("a response to nobody: request " + std::to_string(response.request_id));
    }
    Open& open = at->second;
    if (response.error) {
      fail("request " + std::to_string(response.request_id) + ": " + response.error->message);
    }
    const auto sequence = static_cast<size_t>(response.sequence_index);
    if (sequence >= open.output.size() || open.ended[sequence]) {
      fail("a response after the last one of its sequence");
    }
    std::vector<int32_t>& output = open.output[sequence];
    output.insert(output.end(), response.token_ids.begin(), response.token_ids.end());
    tokens_ += static_cast<int64_t>(response.token_ids.size());
    open.ended[sequence] = response.is_sequence_final;
    check(open, response, output);
    if (response.is_final) {
      if (!std::ranges::all_of(open.ended, [](bool ended) { return ended; })) {
        fail("a final response before the end of every sequence");
      }
      open_.erase(at);
    }
  }

  void check(const Open& open, const Response& response, const std::vector<int32_t>& output) {
    const SamplingParams& sampling = open.request.sampling;
    const bool cut = response.finish_reason == FinishReason::kCancelled ||
                     response.finish_reason == FinishReason::kTimedOut;
    const auto most = static_cast<size_t>(*sampling.max_tokens);
    if (output.size() > most ||
        (response.finish_reason == FinishReason::kLength && output.size() != most)) {
      fail(std::to_string(output.size()) + " tokens of " + std::to_string(most));
    }
    if (response.finish_reason == FinishReason::kCancelled && !open.cancelled) {
      fail("cancelled by nobody");
    }
    if (response.is_sequence_final && !cut && output.empty()) {
      fail("an end without a token");
    }
    for (const int32_t token : response.token_ids) {
      if (token < 0 || token >= executor_.limits().vocab_size ||
          (!sampling.bad_words.empty() && token == sampling.bad_words[0][0])) {
        fail("token " + std::to_string(token) + " is not allowed");
      }
    }
    if (sampling.logprobs.has_value() && response.logprobs.size() != response.token_ids.size()) {
      fail("log-probabilities and tokens differ in number");
    }
    const size_t logits = open.request.return_generation_logits ? response.token_ids.size() : 0;
    if (response.generation_logits.size() !=
        logits * static_cast<size_t>(executor_.limits().vocab_size)) {
      fail("logits and tokens differ in number");
    }
  }

  Executor& executor_;
  std::mt19937_64 random_;
  std::map<RequestId, Open> open_;
  int64_t tokens_ = 0;
  int64_t cancelled_ = 0;
};

// What half the requests may leave behind in caches that fill up.
void compare(const Resources& before, const Resources& after) {
  constexpr int64_t kSlack = 64 << 20;
  std::printf("resident %+.1f MiB, device %+.1f MiB, files %+lld, threads %+lld\n",
              static_cast<double>(after.resident - before.resident) / (1 << 20),
              static_cast<double>(before.device_free - after.device_free) / (1 << 20),
              static_cast<long long>(after.files - before.files),
              static_cast<long long>(after.threads - before.threads));
  if (after.resident - before.resident > kSlack ||
      before.device_free - after.device_free > kSlack || after.files > before.files ||
      after.threads > before.threads) {
    fail("something is left behind");
  }
}

void run(const std::string& engine, int64_t requests, uint64_t seed, SchedulerPolicy policy) {
  ExecutorConfig config;
  config.policy = policy;
  auto executor = Executor::load(engine, config);
  if (!executor) {
    fail(executor.error().message);
  }
  if (policy == SchedulerPolicy::kMaxUtilization) {
    // So few blocks that sequences pause.
    const ExecutorLimits limits = (*executor)->limits();
    const int64_t tokens = int64_t{limits.kv_blocks} * limits.tokens_per_block;
    const int64_t fewest = limits.max_seq_len + limits.tokens_per_block;
    config.kv_cache_bytes =
        limits.kv_bytes / tokens * std::max(std::min<int64_t>(tokens / 4, 4096), fewest);
    executor->reset();
    executor = Executor::load(engine, config);
    if (!executor) {
      fail(executor.error().message);
    }
  }
  Soak soak(**executor, seed);
  const auto begin = std::chrono::steady_clock::now();
  soak.run(requests / 2);
  const Resources before = Resources::now();
  soak.run(requests - requests / 2);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%s: %lld requests, %lld cancels, %lld tokens in %.1f s; second half: ",
              policy == SchedulerPolicy::kMaxUtilization ? "max_utilization" : "no_evict",
              static_cast<long long>(requests), static_cast<long long>(soak.cancelled()),
              static_cast<long long>(soak.tokens()), seconds.count());
  compare(before, Resources::now());
}

}  // namespace
}  // namespace zonda::test

int main(int argc, char** argv) {
  if (argc != 4 || std::atoll(argv[2]) < 2) {
    zonda::test::fail("usage: requests_soak ENGINE REQUESTS SEED");
  }
  const int64_t requests = std::atoll(argv[2]);
  const auto seed = static_cast<uint64_t>(std::atoll(argv[3]));
  zonda::test::run(argv[1], requests / 2, seed, zonda::SchedulerPolicy::kGuaranteedNoEvict);
  zonda::test::run(argv[1], requests - requests / 2, seed + 1,
                   zonda::SchedulerPolicy::kMaxUtilization);
  return 0;
}
