// Sends many requests at once and hands their deltas out in the order of the requests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "cli/answer.h"
#include "zonda/llm.h"

namespace zonda::cli {

struct BatchResult {
  std::vector<Answer> answers;  // in the order of the requests
  double wall_ms = 0.0;
  bool interrupted = false;  // Ctrl-C, or nobody reads stdout: what was left is cancelled
};

// Called for each delta, request by request; false stops everything.
using DeltaVisitor = std::function<bool(size_t request, const ResponseDelta& delta)>;
// Called once for each complete answer, in order; false stops everything.
using AnswerVisitor = std::function<bool(size_t request, const Answer& answer)>;

Result<BatchResult> run_batch(Llm& llm, const std::vector<GenerateRequest>& requests,
                              const DeltaVisitor& on_delta, const AnswerVisitor& on_answer);

}  // namespace zonda::cli
