// SPDX-License-Identifier: Apache-2.0
#include "executor_runs.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <utility>

namespace zonda::bench {

void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

int64_t read_count(const char* text) {
  char* end = nullptr;
  const int64_t value = std::strtoll(text, &end, 10);
  if (end == text || *end != '\0' || value < 1 || value > 1'000'000) {
    fail(std::string(text) + " is no count from 1 to 1000000");
  }
  return value;
}

std::unique_ptr<Executor> load_executor(const std::string& engine, int64_t queue) {
  ExecutorConfig config;
  config.max_queue_size = static_cast<int32_t>(queue);
  Result<std::unique_ptr<Executor>> executor = Executor::load(engine, config);
  if (!executor) {
    fail(executor.error().message);
  }
  const ExecutorLimits& limits = (*executor)->limits();
  std::printf("%s: batch %d, %d tokens a step, cache of %lld tokens\n",
              limits.instruction_set.c_str(), limits.max_batch_size, limits.max_num_tokens,
              static_cast<long long>(limits.kv_blocks) * limits.tokens_per_block);
  return std::move(*executor);
}

Request make_request(uint64_t seed, int64_t input, int64_t output, int32_t vocab_size) {
  std::mt19937_64 random(seed);
  Request request;
  request.input_token_ids.resize(static_cast<size_t>(input));
  for (int32_t& token : request.input_token_ids) {
    token = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size));
  }
  request.sampling.temperature = 0.0f;
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = static_cast<int32_t>(output);
  return request;
}

double run_all(Executor& executor, std::vector<Request> requests) {
  std::map<RequestId, int32_t> wanted;  // tokens
  const auto begin = std::chrono::steady_clock::now();
  for (Request& request : requests) {
    const int32_t tokens = *request.sampling.max_tokens;
    const Result<RequestId> id = executor.enqueue(std::move(request));
    if (!id) {
      fail(id.error().message);
    }
    wanted.emplace(*id, tokens);
  }
  while (!wanted.empty()) {
    for (const Response& response : executor.await_responses()) {
      if (response.error) {
        fail(response.error->message);
      }
      if (!response.is_final) {
        continue;
      }
      const int32_t tokens = wanted.at(response.request_id);
      if (response.token_ids.size() != static_cast<size_t>(tokens)) {
        fail("an answer of " + std::to_string(response.token_ids.size()) + " tokens, not " +
             std::to_string(tokens));
      }
      wanted.erase(response.request_id);
    }
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace zonda::bench
