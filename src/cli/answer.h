// The answer to one request, put together from its deltas, and how it is printed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "zonda/llm.h"

namespace zonda::cli {

struct Choice {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<TokenLogprobs> logprobs;
  double cumulative_logprob = 0.0;
  FinishReason finish_reason = FinishReason::kNotFinished;
  std::string stop_text;
};

struct Answer {
  std::vector<int32_t> prompt_ids;
  std::vector<Choice> choices;
  std::vector<TokenLogprobs> prompt_logprobs;
  std::vector<float> context_logits;  // [prompt tokens, vocab]
  RequestTimings timings;
  double enqueued_ms = 0.0;  // since the run began

  size_t output_tokens() const;
};

void take_delta(Answer& answer, ResponseDelta delta);

// One line: prompt_ids, ids, text, finish_reason, ...; `profiling` is JSON text or empty. `asked`
// tells which optional fields belong in it.
std::string answer_json(const Answer& answer, const SamplingParams& asked, double load_ms,
                        const std::string& profiling);

}  // namespace zonda::cli
