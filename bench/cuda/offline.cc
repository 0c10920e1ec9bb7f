// Offline throughput of an engine: requests of equal length, all asked at once.
// Usage: cuda_offline_bench ENGINE {REQUESTS INPUT OUTPUT}...
// A line for each case; lengths in tokens. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <vector>

#include "executor_runs.h"

namespace zonda::bench {
namespace {

struct Case {
  int64_t requests = 0;
  int64_t input = 0;   // tokens of a prompt
  int64_t output = 0;  // tokens of an answer
};

// Other prompts for another `seed`: none finds the blocks of a case before it.
double time_case(Executor& executor, const Case& shape, uint64_t seed) {
  std::vector<Request> requests;
  for (int64_t i = 0; i < shape.requests; ++i) {
    requests.push_back(make_request(seed * 1'000'000 + static_cast<uint64_t>(i), shape.input,
                                    shape.output, executor.limits().vocab_size));
  }
  return run_all(executor, std::move(requests));
}

void run(const std::string& path, const std::vector<Case>& shapes) {
  const auto executor = load_executor(path, 1'000'000);
  uint64_t seed = 0;
  time_case(*executor, {1, shapes[0].input, 8}, seed);  // warms up
  std::printf("%9s %7s %7s %10s %14s %14s\n", "requests", "input", "output", "seconds",
              "output tok/s", "all tok/s");
  for (const Case& shape : shapes) {
    const double seconds = time_case(*executor, shape, ++seed);
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
  if (argc < 5 || argc % 3 != 2) {
    zonda::bench::fail("usage: cuda_offline_bench ENGINE {REQUESTS INPUT OUTPUT}...");
  }
  std::vector<zonda::bench::Case> shapes;
  for (int i = 2; i < argc; i += 3) {
    shapes.push_back({read_count(argv[i]), read_count(argv[i + 1]), read_count(argv[i + 2])});
  }
  zonda::bench::run(argv[1], shapes);
}
