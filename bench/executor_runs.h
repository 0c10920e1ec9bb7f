// Requests through an Executor, timed; a fault ends the program with its message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "zonda/executor.h"

namespace zonda::bench {

[[noreturn]] void fail(const std::string& message);
// An argument from 1 to a million.
int64_t read_count(const char* text);

// Prints a line about the engine. `queue`: requests that may wait.
std::unique_ptr<Executor> load_executor(const std::string& engine, int64_t queue);

// Greedy, of exactly `output` tokens, with a random prompt that shares no prefix beyond chance.
Request make_request(uint64_t seed, int64_t input, int64_t output, int32_t vocab_size);

// Seconds from the first arrival to the last answer, all asked at once.
double run_all(Executor& executor, std::vector<Request> requests);

}  // namespace zonda::bench
