// Executor: construction from an engine or any runner.
// SPDX-License-Identifier: Apache-2.0
#include "zonda/executor.h"

#include <chrono>
#include <random>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "runtime/executor_thread.h"

namespace zonda {

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNotFinished:
      return "not_finished";
    case FinishReason::kEndId:
      return "end_id";
    case FinishReason::kStopWords:
      return "stop_words";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kTimedOut:
      return "timed_out";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

Result<std::unique_ptr<Executor>> Executor::load(const std::string& engine_path,
                                                 const ExecutorConfig& config) {
  auto runner = runtime::load_runner(engine_path, config);
  if (!runner) {
    return runner.error();
  }
  return create(std::move(*runner), config);
}

Result<std::unique_ptr<Executor>> Executor::create(std::unique_ptr<runtime::ModelRunner> runner,
                                                   const ExecutorConfig& config) {
  const auto start = std::chrono::steady_clock::now();
  const runtime::Clock clock = [start] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  };
  auto loop = runtime::StepLoop::create(*runner, config, clock, std::random_device()());
  if (!loop) {
    return loop.error();
  }
  try {
    return std::unique_ptr<Executor>(std::make_unique<runtime::ThreadedExecutor>(
        std::move(runner), std::move(*loop), config, clock));
  } catch (const std::system_error& error) {
    return make_error(ErrorCode::kIo, "[executor] the step thread does not start: {}.",
                      error.what());
  }
}

}  // namespace zonda
