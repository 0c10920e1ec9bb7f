// The figures of a run: its last line, and the table of --run_profiling.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/answer.h"
#include "zonda/llm.h"

namespace zonda::cli {

// "load 210 ms, first token 35.2 ms, prompt 31 tokens, output 64 tokens, 92.3 tok/s, 2 threads,
// avx2". The rate counts the tokens after each first one, over the time in which they came.
std::string figures_line(const LlmInfo& info, const std::vector<Answer>& answers);

// Steps that computed prompts, and steps that only generated.
struct StepGroup {
  int64_t steps = 0;
  int64_t tokens = 0;
  double total_ms = 0.0;
  double median_ms = 0.0;
  double longest_ms = 0.0;
  double tokens_per_s() const { return total_ms > 0.0 ? tokens / total_ms * 1e3 : 0.0; }
};
struct Profiling {
  StepGroup prefill;
  StepGroup decode;
  double first_token_ms = 0.0;  // mean over requests
  double wall_ms = 0.0;
};
Profiling make_profiling(const std::vector<IterationStats>& steps,
                         const std::vector<Answer>& answers, double wall_ms);
std::string profiling_table(const Profiling& profiling);
std::string profiling_json(const Profiling& profiling);

}  // namespace zonda::cli
