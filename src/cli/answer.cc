// SPDX-License-Identifier: Apache-2.0
#include "cli/answer.h"

#include <algorithm>
#include <iterator>

#include "base/json.h"

namespace zonda::cli {
namespace {

template <typename T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

OrderedJson logprobs_json(const std::vector<TokenLogprobs>& logprobs) {
  OrderedJson list = OrderedJson::array();
  for (const TokenLogprobs& entry : logprobs) {
    OrderedJson top = OrderedJson::array();
    for (const TokenLogprob& token : entry.top) {
      top.push_back({{"id", token.token}, {"logprob", token.logprob}});
    }
    list.push_back({{"id", entry.chosen.token},
                    {"logprob", entry.chosen.logprob},
                    {"rank", entry.rank},
                    {"top", top}});
  }
  return list;
}

void add_choice(OrderedJson& json, const Choice& choice, const SamplingParams& asked) {
  json["ids"] = choice.ids;
  json["text"] = choice.text;
  json["finish_reason"] = finish_reason_spelling(choice.finish_reason);
  json["engine_reason"] = finish_reason_name(choice.finish_reason);
  if (!choice.stop_text.empty()) {
    json["stop_text"] = choice.stop_text;
  }
  json["logprobs"] = asked.logprobs ? logprobs_json(choice.logprobs) : OrderedJson(nullptr);
  if (asked.logprobs) {
    json["cumulative_logprob"] = choice.cumulative_logprob;
  }
}

// Tokens a second in `ms`; 0 if nothing was timed.
double rate(double tokens, double ms) { return ms > 0.0 ? tokens / ms * 1e3 : 0.0; }

OrderedJson timings_json(const Answer& answer, double load_ms) {
  const RequestTimings& timings = answer.timings;
  const double prefill_ms = timings.first_token_ms - std::max(timings.first_scheduled_ms, 0.0);
  const double decode_ms = timings.last_token_ms - timings.first_token_ms;
  const double after_first =
      static_cast<double>(answer.output_tokens()) - static_cast<double>(answer.choices.size());
  return {{"load_ms", load_ms},
          {"first_scheduled_ms", timings.first_scheduled_ms},
          {"first_token_ms", timings.first_token_ms},
          {"last_token_ms", timings.last_token_ms},
          {"prompt_tokens", answer.prompt_ids.size()},
          {"output_tokens", answer.output_tokens()},
          {"reused_tokens", timings.reused_tokens},
          {"preemptions", timings.preemptions},
          {"prefill_tok_s", rate(static_cast<double>(answer.prompt_ids.size()), prefill_ms)},
          {"decode_tok_s", rate(std::max(after_first, 0.0), decode_ms)}};
}

}  // namespace

size_t Answer::output_tokens() const {
  size_t tokens = 0;
  for (const Choice& choice : choices) {
    tokens += choice.ids.size();
  }
  return tokens;
}

void take_delta(Answer& answer, ResponseDelta delta) {
  const auto index = static_cast<size_t>(delta.sequence_index);
  if (answer.choices.size() <= index) {
    answer.choices.resize(index + 1);
  }
  Choice& choice = answer.choices[index];
  choice.text += delta.text;
  append(choice.ids, delta.token_ids);
  append(choice.logprobs, delta.logprobs);
  append(answer.prompt_logprobs, delta.prompt_logprobs);
  append(answer.context_logits, delta.context_logits);
  choice.cumulative_logprob = delta.cumulative_logprob;
  if (delta.finish_reason != FinishReason::kNotFinished) {
    choice.finish_reason = delta.finish_reason;
    choice.stop_text = delta.stop_text;
  }
  answer.timings = delta.timings;
}

std::string answer_json(const Answer& answer, const SamplingParams& asked, double load_ms,
                        const std::string& profiling) {
  OrderedJson json;
  json["prompt_ids"] = answer.prompt_ids;
  add_choice(json, answer.choices.empty() ? Choice{} : answer.choices[0], asked);
  if (asked.prompt_logprobs) {
    json["prompt_logprobs"] = logprobs_json(answer.prompt_logprobs);
  }
  if (asked.n > 1) {
    OrderedJson choices = OrderedJson::array();
    for (const Choice& choice : answer.choices) {
      add_choice(choices.emplace_back(OrderedJson::object()), choice, asked);
    }
    json["choices"] = choices;
  }
  json["timings"] = timings_json(answer, load_ms);
  if (!profiling.empty()) {
    Result<OrderedJson> parsed = parse_ordered_json(profiling, "profiling");
    json["profiling"] = parsed ? std::move(*parsed) : OrderedJson(nullptr);
  }
  return dump_json(json);
}

}  // namespace zonda::cli
