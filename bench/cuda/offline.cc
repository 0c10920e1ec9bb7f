// Offline throughput of an engine: requests of equal length, all asked at once.
// Usage: cuda_offline_bench ENGINE REQUESTS INPUT OUTPUT [INPUT OUTPUT ...]
// A line for each pair of lengths, in tokens. SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "zonda/executor.h"

namespace zonda::bench {
namespace {

struct Case {
  int64_t requests = 0;
  int64_t input = 0;   // tokens of a prompt
  int64_t output = 0;  // tokens of an answer
};

[[noreturn]] void fail(const std::string& message) {
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

// Prompts that share no prefix beyond chance.
std::vector<Request> make_requests(const Case& shape, int32_t vocab_size) {
  std::mt19937_64 random(1);
  std::vector<Request> requests(static_cast<size_t>(shape.requests));
  for (Request& request : requests) {
    request.input_token_ids.resize(static_cast<size_t>(shape.input));
    for (int32_t& token : request.input_token_ids) {
      token = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size));
    }
    request.sampling.temperature = 0.0f;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = static_cast<int32_t>(shape.output);
  }
  return requests;
}

// Seconds from the first request's arrival to the last one's answer.
double time_requests(Executor& executor, const Case& shape) {
  std::vector<Request> requests = make_requests(shape, executor.limits().vocab_size);
  const auto begin = std::chrono::steady_clock::now();
  for (Request& request : requests) {
    const Result<RequestId> id = executor.enqueue(std::move(request));
    if (!id) {
      fail(id.error().message);
    }
  }
  int64_t answered = 0;
  while (answered < shape.requests) {
    for (const Response& response : executor.await_responses()) {
      if (response.error) {
        fail(response.error->message);
      }
      if (response.is_final) {
        ++answered;
        if (static_cast<int64_t>(response.token_ids.size()) != shape.output) {
          fail("an answer of " + std::to_string(response.token_ids.size()) + " tokens, not " +
               std::to_string(shape.output));
        }
      }
    }
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void run(const std::string& path, const std::vector<Case>& shapes) {
  ExecutorConfig config;
  config.max_queue_size = static_cast<int32_t>(shapes[0].requests);
  Result<std::unique_ptr<Executor>> executor = Executor::load(path, config);
  if (!executor) {
    fail(executor.error().message);
  }
  const ExecutorLimits& limits = (*executor)->limits();
  std::printf("%s: batch %d, %d tokens a step, cache of %lld tokens\n",
              limits.instruction_set.c_str(), limits.max_batch_size, limits.max_num_tokens,
              static_cast<long long>(limits.kv_blocks) * limits.tokens_per_block);
  time_requests(**executor, {1, shapes[0].input, 8});  // warms up
  std::printf("%9s %7s %7s %10s %14s %14s\n", "requests", "input", "output", "seconds",
              "output tok/s", "all tok/s");
  for (const Case& shape : shapes) {
    const double seconds = time_requests(**executor, shape);
    const auto requests = static_cast<double>(shape.requests);
    std::printf("%9lld %7lld %7lld %10.2f %14.1f %14.1f\n", static_cast<long long>(shape.requests),
                static_cast<long long>(shape.input), static_cast<long long>(shape.output), seconds,
                requests * static_cast<double>(shape.output) / seconds,
                requests * static_cast<double>(shape.input + shape.output) / seconds);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace zonda::bench

int main(int argc, char** argv) {
  using zonda::bench::read_count;
  if (argc < 5 || argc % 2 == 0) {
    zonda::bench::fail("usage: cuda_offline_bench ENGINE REQUESTS INPUT OUTPUT [INPUT OUTPUT ...]");
  }
  std::vector<zonda::bench::Case> shapes;
  for (int i = 3; i < argc; i += 2) {
    shapes.push_back({read_count(argv[2]), read_count(argv[i]), read_count(argv[i + 1])});
  }
  zonda::bench::run(argv[1], shapes);
}
