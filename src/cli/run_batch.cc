// SPDX-License-Identifier: Apache-2.0
#include "cli/run_batch.h"

#include <chrono>

#include "base/error.h"
#include "cli/interrupt.h"

namespace zonda::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(50);  // between looks at Ctrl-C

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

using Streams = std::vector<std::unique_ptr<ResponseStream>>;

Result<Streams> enqueue_all(Llm& llm, const std::vector<GenerateRequest>& requests,
                            Clock::time_point start, std::vector<Answer>& answers) {
  Streams streams;
  for (size_t i = 0; i < requests.size(); ++i) {
    Answer& answer = answers.emplace_back();
    answer.enqueued_ms = ms_since(start);
    Result<std::unique_ptr<ResponseStream>> stream = llm.generate(requests[i]);
    if (!stream) {
      return requests.size() == 1 ? stream.error()
                                  : Error{stream.error().code, fmt::format("{} (request {} of {})",
                                                                           stream.error().message,
                                                                           i + 1, requests.size())};
    }
    answer.prompt_ids = (*stream)->prompt_token_ids();
    streams.push_back(std::move(*stream));
  }
  return streams;
}

void cancel_all(Streams& streams) {
  for (const std::unique_ptr<ResponseStream>& stream : streams) {
    stream->cancel();
  }
}

}  // namespace

Result<BatchResult> run_batch(Llm& llm, const std::vector<GenerateRequest>& requests,
                              const DeltaVisitor& on_delta, const AnswerVisitor& on_answer) {
  const Clock::time_point start = Clock::now();
  BatchResult result;
  Result<Streams> streams = enqueue_all(llm, requests, start, result.answers);
  if (!streams) {
    return streams.error();
  }
  bool wanted = true;  // somebody reads
  for (size_t i = 0; i < streams->size() && wanted; ++i) {
    ResponseStream& stream = *(*streams)[i];
    while (!stream.is_done() && wanted) {
      if (interrupted() && !result.interrupted) {
        result.interrupted = true;
        cancel_all(*streams);
      }
      Result<std::vector<ResponseDelta>> deltas = stream.next(kPoll);
      if (!deltas) {
        return deltas.error();
      }
      for (ResponseDelta& delta : *deltas) {
        wanted = wanted && on_delta(i, delta);
        take_delta(result.answers[i], std::move(delta));
      }
    }
    wanted = wanted && on_answer(i, result.answers[i]);
  }
  result.interrupted = result.interrupted || !wanted;
  result.wall_ms = ms_since(start);
  return result;
}

}  // namespace zonda::cli
