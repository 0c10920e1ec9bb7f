// SPDX-License-Identifier: Apache-2.0
#include "api/response_stream.h"

#include <algorithm>

namespace zonda::api {
namespace {

using Clock = std::chrono::steady_clock;

// One sequence of the request and the delta that is being put together.
struct Sequence {
  SequenceText text;
  ResponseDelta delta;
  double cumulative_logprob = 0.0;
  bool done = false;
};

void append(std::vector<TokenLogprobs>& to, std::vector<TokenLogprobs>&& from, size_t count) {
  const size_t taken = std::min(count, from.size());
  to.insert(to.end(), std::make_move_iterator(from.begin()),
            std::make_move_iterator(from.begin() + static_cast<std::ptrdiff_t>(taken)));
}

class Stream : public ResponseStream {
 public:
  Stream(Executor& executor, RequestId id, StreamOptions options)
      : executor_(executor), id_(id), options_(std::move(options)) {
    for (int32_t i = 0; i < options_.sequences; ++i) {
      sequences_.push_back({SequenceText(options_.tokenizer, options_.skip_special_tokens,
                                         options_.stop, options_.include_stop, options_.min_tokens),
                            {},
                            0.0,
                            false});
    }
  }
  ~Stream() override {
    if (!done_) {
      executor_.abandon(id_);
    }
  }

  Result<std::vector<ResponseDelta>> next(Executor::Timeout timeout) override {
    const Clock::time_point deadline = timeout ? Clock::now() + *timeout : Clock::time_point::max();
    std::vector<ResponseDelta> deltas;
    while (!done_ && deltas.empty()) {
      Executor::Timeout left;
      if (timeout) {
        left = std::chrono::duration_cast<std::chrono::milliseconds>(
            std::max(deadline - Clock::now(), Clock::duration::zero()));
      }
      Result<std::vector<Response>> responses = executor_.await_responses(id_, left);
      if (!responses) {
        done_ = true;
        return responses.error();
      }
      for (Response& response : *responses) {
        if (done_) {
          break;
        }
        if (response.error) {
          done_ = true;
          return *response.error;
        }
        take(std::move(response), deltas);
      }
      if (responses->empty() && timeout) {
        break;
      }
    }
    return deltas;
  }

  bool is_done() const override { return done_; }
  void cancel() override { executor_.cancel(id_); }
  const std::vector<int32_t>& prompt_token_ids() const override {
    return options_.prompt_token_ids;
  }

 private:
  void take(Response response, std::vector<ResponseDelta>& deltas) {
    const auto index = static_cast<size_t>(response.sequence_index);
    if (index >= sequences_.size()) {
      return;
    }
    Sequence& sequence = sequences_[index];
    ResponseDelta& delta = sequence.delta;
    append(delta.prompt_logprobs, std::move(response.prompt_logprobs), SIZE_MAX);
    delta.context_logits.insert(delta.context_logits.end(), response.context_logits.begin(),
                                response.context_logits.end());
    if (!sequence.done) {
      take_tokens(sequence, response);
      delta.timings = response.timings;
      if (sequence.done || options_.streaming) {
        give(sequence, response.sequence_index, deltas);
      }
    }
    if (response.is_final) {
      done_ = true;
    }
  }

  // Adds the tokens up to a stop string, and what the end of the sequence adds.
  void take_tokens(Sequence& sequence, Response& response) {
    ResponseDelta& delta = sequence.delta;
    const FinishReason reason = response.finish_reason;
    const bool hides_last = reason == FinishReason::kEndId || reason == FinishReason::kStopWords;
    size_t used = 0;
    while (used < response.token_ids.size() && !sequence.text.stop()) {
      const int32_t id = response.token_ids[used++];
      delta.token_ids.push_back(id);
      if (!(hides_last && response.is_sequence_final && used == response.token_ids.size())) {
        delta.text += sequence.text.push(id);
      }
    }
    for (size_t i = 0; i < std::min(used, response.logprobs.size()); ++i) {
      sequence.cumulative_logprob += response.logprobs[i].chosen.logprob;
    }
    append(delta.logprobs, std::move(response.logprobs), used);
    if (response.is_sequence_final && !sequence.text.stop()) {
      delta.text += sequence.text.finish();
      delta.finish_reason = reason;
      delta.stop_token = response.stop_token;
      sequence.done = true;
    }
    if (sequence.text.stop()) {
      delta.finish_reason = FinishReason::kStopWords;
      delta.stop_token = delta.token_ids.empty() ? -1 : delta.token_ids.back();
      delta.stop_text = *sequence.text.stop();
      sequence.done = true;
      end_early(response);
    }
  }

  // A stop string is complete: the executor need not go on.
  void end_early(const Response& response) {
    const bool all_done = std::all_of(sequences_.begin(), sequences_.end(),
                                      [](const Sequence& sequence) { return sequence.done; });
    if (all_done) {
      if (!response.is_final) {
        executor_.abandon(id_);
      }
      done_ = true;
    } else if (!response.is_sequence_final) {
      executor_.cancel_sequence(id_, response.sequence_index);
    }
  }

  void give(Sequence& sequence, int32_t index, std::vector<ResponseDelta>& deltas) {
    ResponseDelta& delta = sequence.delta;
    delta.sequence_index = index;
    delta.cumulative_logprob = sequence.cumulative_logprob;
    delta.is_final = std::all_of(sequences_.begin(), sequences_.end(),
                                 [](const Sequence& each) { return each.done; });
    deltas.push_back(std::move(delta));
    delta = {};
  }

  Executor& executor_;
  RequestId id_;
  StreamOptions options_;
  std::vector<Sequence> sequences_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<ResponseStream> make_stream(Executor& executor, RequestId id,
                                            StreamOptions options) {
  return std::make_unique<Stream>(executor, id, std::move(options));
}

}  // namespace zonda::api
