// Continuous against static batching (the engine's largest batch at a time, the next one when all
// of it has answered): answers of mixed lengths, log-uniform from 16 to 1,024 tokens.
// Usage: cuda_batching_bench ENGINE REQUESTS INPUT
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <random>
#include <vector>

#include "executor_runs.h"

namespace zonda::bench {
namespace {

constexpr double kShortest = 16;
constexpr double kLongest = 1024;

// Other prompts for another `seed`, so that no run finds the blocks of the one before it.
std::vector<Request> make_requests(uint64_t seed, int64_t count, int64_t input, int32_t vocab) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> logarithm(std::log(kShortest), std::log(kLongest));
  std::vector<Request> requests;
  for (int64_t i = 0; i < count; ++i) {
    const auto output = std::llround(std::exp(logarithm(random)));
    requests.push_back(make_request(seed + static_cast<uint64_t>(i), input, output, vocab));
  }
  return requests;
}

double run_static(Executor& executor, std::vector<Request> requests) {
  const auto batch = static_cast<size_t>(executor.limits().max_batch_size);
  double seconds = 0.0;
  for (size_t begin = 0; begin < requests.size(); begin += batch) {
    const size_t end = std::min(begin + batch, requests.size());
    seconds += run_all(executor,
                       {std::make_move_iterator(requests.begin() + static_cast<ptrdiff_t>(begin)),
                        std::make_move_iterator(requests.begin() + static_cast<ptrdiff_t>(end))});
  }
  return seconds;
}

void run(const std::string& path, int64_t count, int64_t input) {
  const auto executor = load_executor(path, count);
  const int32_t vocab = executor->limits().vocab_size;
  run_all(*executor, {make_request(1, input, 8, vocab)});  // warms up
  const std::vector<Request> requests = make_requests(1'000'000, count, input, vocab);
  int64_t tokens = 0;
  for (const Request& request : requests) {
    tokens += *request.sampling.max_tokens;
  }
  const double continuous = run_all(*executor, requests);
  const double fixed = run_static(*executor, make_requests(2'000'000, count, input, vocab));
  std::printf(
      "%lld requests, %lld output tokens: continuous %.1f tok/s, static %.1f tok/s, %.2f times\n",
      static_cast<long long>(count), static_cast<long long>(tokens),
      static_cast<double>(tokens) / continuous, static_cast<double>(tokens) / fixed,
      fixed / continuous);
}

}  // namespace
}  // namespace zonda::bench

int main(int argc, char** argv) {
  using zonda::bench::read_count;
  if (argc != 4) {
    zonda::bench::fail("usage: cuda_batching_bench ENGINE REQUESTS INPUT");
  }
  zonda::bench::run(argv[1], read_count(argv[2]), read_count(argv[3]));
}
