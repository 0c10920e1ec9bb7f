// SPDX-License-Identifier: Apache-2.0
#include "cli/run_figures.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/json.h"
#include "cli/table.h"

namespace zonda::cli {
namespace {

StepGroup summed(std::vector<double> latencies, int64_t tokens) {
  StepGroup group;
  group.steps = static_cast<int64_t>(latencies.size());
  group.tokens = tokens;
  std::sort(latencies.begin(), latencies.end());
  for (const double latency : latencies) {
    group.total_ms += latency;
  }
  if (!latencies.empty()) {
    group.median_ms = latencies[latencies.size() / 2];
    group.longest_ms = latencies.back();
  }
  return group;
}

OrderedJson group_json(const StepGroup& group) {
  return {{"steps", group.steps},           {"tokens", group.tokens},
          {"total_ms", group.total_ms},     {"median_ms", group.median_ms},
          {"longest_ms", group.longest_ms}, {"tok_s", group.tokens_per_s()}};
}

}  // namespace

std::string figures_line(const LlmInfo& info, const std::vector<Answer>& answers) {
  size_t prompt_tokens = 0;
  size_t output_tokens = 0;
  double after_first = 0.0;
  double first_ms = -1.0;
  double first_at = 1e300;
  double last_at = 0.0;
  for (const Answer& answer : answers) {
    prompt_tokens += answer.prompt_ids.size();
    output_tokens += answer.output_tokens();
    if (answer.timings.first_token_ms < 0.0) {
      continue;
    }
    after_first +=
        static_cast<double>(answer.output_tokens()) - static_cast<double>(answer.choices.size());
    first_ms = first_ms < 0.0 ? answer.timings.first_token_ms
                              : std::min(first_ms, answer.timings.first_token_ms);
    first_at = std::min(first_at, answer.enqueued_ms + answer.timings.first_token_ms);
    last_at = std::max(last_at, answer.enqueued_ms + answer.timings.last_token_ms);
  }
  const double rate = last_at > first_at ? after_first / (last_at - first_at) * 1e3 : 0.0;
  return fmt::format(
      "load {:.0f} ms, first token {:.1f} ms, prompt {} tokens, output {} tokens, {:.1f} tok/s, {} "
      "threads, {}",
      info.load_ms, first_ms, prompt_tokens, output_tokens, rate, info.threads,
      info.instruction_set);
}

Profiling make_profiling(const std::vector<IterationStats>& steps,
                         const std::vector<Answer>& answers, double wall_ms) {
  std::vector<double> prefill;
  std::vector<double> decode;
  int64_t prefill_tokens = 0;
  int64_t decode_tokens = 0;
  for (const IterationStats& step : steps) {
    if (step.context_tokens > 0) {
      prefill.push_back(step.latency_ms);
      prefill_tokens += step.context_tokens + step.generation_requests;
    } else if (step.generation_requests > 0) {
      decode.push_back(step.latency_ms);
      decode_tokens += step.generation_requests;
    }
  }
  Profiling profiling;
  profiling.prefill = summed(std::move(prefill), prefill_tokens);
  profiling.decode = summed(std::move(decode), decode_tokens);
  for (const Answer& answer : answers) {
    profiling.first_token_ms += answer.timings.first_token_ms / static_cast<double>(answers.size());
  }
  profiling.wall_ms = wall_ms;
  return profiling;
}

std::string profiling_table(const Profiling& profiling) {
  TextTable table({"steps", "number", "tokens", "total ms", "median ms", "longest ms", "tok/s"});
  for (const auto& [name, group] :
       {std::pair{"prefill", &profiling.prefill}, {"decode", &profiling.decode}}) {
    table.add({name, std::to_string(group->steps), std::to_string(group->tokens),
               fmt::format("{:.2f}", group->total_ms), fmt::format("{:.3f}", group->median_ms),
               fmt::format("{:.3f}", group->longest_ms),
               fmt::format("{:.1f}", group->tokens_per_s())});
  }
  return table.text() + fmt::format("first token {:.2f} ms (mean), all requests {:.2f} ms\n",
                                    profiling.first_token_ms, profiling.wall_ms);
}

std::string profiling_json(const Profiling& profiling) {
  const OrderedJson json = {{"prefill", group_json(profiling.prefill)},
                            {"decode", group_json(profiling.decode)},
                            {"first_token_ms", profiling.first_token_ms},
                            {"wall_ms", profiling.wall_ms}};
  return dump_json(json);
}

}  // namespace zonda::cli
