// Laws of StepLoop, one step at a time: faults, deadlines, log-probabilities, statistics.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/step_loop.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/fake_runner.h"

namespace zonda::runtime {
namespace {

using Tokens = std::vector<int32_t>;

class StepLoopTest : public testing::Test {
 protected:
  void start(const FakeOptions& options = {}, const ExecutorConfig& config = {}) {
    runner_ = std::make_unique<FakeRunner>(options);
    auto loop = StepLoop::create(
        *runner_, config, [this] { return now_ms_; }, 1);
    ASSERT_TRUE(loop.ok()) << loop.error().message;
    loop_ = std::move(*loop);
  }

  Result<void> add(RequestId id, const Tokens& prompt, const SamplingParams& sampling,
                   const std::function<void(Request&)>& change = {}) {
    Request request;
    request.input_token_ids = prompt;
    request.sampling = sampling;
    if (change) {
      change(request);
    }
    if (auto prepared = loop_->prepare(request); !prepared) {
      return prepared;
    }
    loop_->add(id, std::move(request), now_ms_);
    return {};
  }

  // Final responses by request, from the start of the loop on; streams are joined.
  std::map<RequestId, std::vector<Response>> run(int most_steps = 1000) {
    for (int i = 0; i < most_steps && loop_->has_work(); ++i) {
      loop_->step();
      now_ms_ += 1.0;
    }
    std::map<RequestId, std::vector<Response>> result;
    for (Response& response : loop_->take_responses()) {
      result[response.request_id].push_back(std::move(response));
    }
    return result;
  }

  void TearDown() override {
    if (loop_ != nullptr) {
      EXPECT_FALSE(loop_->has_work());
      EXPECT_EQ(loop_->num_queued(), 0);
      EXPECT_EQ(loop_->kv_cache_stats().used_blocks, 0);
    }
  }

  static SamplingParams tokens(int32_t max_tokens) {
    SamplingParams params;
    params.max_tokens = max_tokens;
    return params;
  }

  double now_ms_ = 0.0;
  std::unique_ptr<FakeRunner> runner_;
  std::unique_ptr<StepLoop> loop_;
};

TEST_F(StepLoopTest, GreedyTokensAreThoseOfTheModel) {
  start();
  ASSERT_TRUE(add(1, {3, 4, 5}, tokens(20)).ok());
  const auto responses = run();
  ASSERT_EQ(responses.at(1).size(), 1u);
  EXPECT_EQ(responses.at(1)[0].token_ids, greedy_continuation({3, 4, 5}, 20));
  EXPECT_EQ(responses.at(1)[0].finish_reason, FinishReason::kLength);
  EXPECT_TRUE(responses.at(1)[0].is_final);
}

TEST_F(StepLoopTest, AStreamCarriesEachTokenOnce) {
  start();
  ASSERT_TRUE(add(1, {3, 4, 5}, tokens(6), [](Request& r) { r.streaming = true; }).ok());
  const auto responses = run();
  ASSERT_EQ(responses.at(1).size(), 6u);
  Tokens joined;
  for (const Response& response : responses.at(1)) {
    ASSERT_EQ(response.token_ids.size(), 1u);
    joined.push_back(response.token_ids[0]);
    EXPECT_EQ(response.is_final, joined.size() == 6);
  }
  EXPECT_EQ(joined, greedy_continuation({3, 4, 5}, 6));
}

TEST_F(StepLoopTest, EndIdsAndStopWordsEndAndAreReported) {
  start();
  const Tokens all = greedy_continuation({3, 4, 5}, 20);
  ASSERT_TRUE(add(1, {3, 4, 5}, tokens(20), [&](Request& r) { r.end_ids = {all[4]}; }).ok());
  ASSERT_TRUE(add(2, {3, 4, 5}, tokens(20), [&](Request& r) {
                r.sampling.stop_words = {{all[6], all[7]}};
              }).ok());
  const auto responses = run();
  const Response& ended = responses.at(1)[0];
  EXPECT_EQ(ended.finish_reason, FinishReason::kEndId);
  EXPECT_EQ(ended.stop_token, all[4]);
  EXPECT_EQ(ended.token_ids.back(), all[4]);
  EXPECT_LE(ended.token_ids.size(), 5u);
  const Response& stopped = responses.at(2)[0];
  EXPECT_EQ(stopped.finish_reason, FinishReason::kStopWords);
  EXPECT_EQ(stopped.stop_token, all[7]);
}

TEST_F(StepLoopTest, LogprobsAreOneToOneWithTokensAndSumUp) {
  start();
  SamplingParams sampling = tokens(8);
  sampling.temperature = 1.5f;
  sampling.seed = 3;
  sampling.logprobs = 4;
  ASSERT_TRUE(add(1, {3, 4, 5}, sampling, [](Request& r) { r.streaming = true; }).ok());
  ASSERT_TRUE(add(2, {3, 4, 5}, sampling).ok());
  const auto responses = run();
  std::vector<TokenLogprobs> streamed;
  for (const Response& response : responses.at(1)) {
    ASSERT_EQ(response.logprobs.size(), response.token_ids.size());
    streamed.push_back(response.logprobs[0]);
  }
  const Response& whole = responses.at(2)[0];
  ASSERT_EQ(whole.logprobs.size(), 8u);
  double sum = 0.0;
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(whole.logprobs[i].chosen.token, whole.token_ids[i]);
    EXPECT_EQ(whole.logprobs[i].chosen.logprob, streamed[i].chosen.logprob);
    EXPECT_EQ(whole.logprobs[i].top.size(), 4u);
    sum += static_cast<double>(whole.logprobs[i].chosen.logprob);
  }
  EXPECT_EQ(whole.cumulative_logprob, sum);
}

// The oracle is log-softmax of the fake's own rows.
TEST_F(StepLoopTest, PromptLogprobsAndLogitsAreThoseOfThePositions) {
  start();
  const Tokens prompt = {3, 4, 5, 6, 7, 8, 9, 10, 11};
  ASSERT_TRUE(add(1, prompt, tokens(1)).ok());
  run();  // its blocks are in the cache now
  SamplingParams sampling = tokens(2);
  sampling.prompt_logprobs = 0;
  ASSERT_TRUE(add(2, prompt, sampling, [](Request& r) {
                r.return_context_logits = true;
                r.return_generation_logits = true;
              }).ok());
  const Response response = run().at(2)[0];
  ASSERT_EQ(response.prompt_logprobs.size(), prompt.size() - 1);
  ASSERT_EQ(response.context_logits.size(), prompt.size() * 50);
  ASSERT_EQ(response.generation_logits.size(), 2u * 50);
  uint64_t history = 0;
  for (size_t i = 0; i < prompt.size(); ++i) {
    history = extend_history(history, prompt[i]);
    const auto logits = fake_logits(history, 50);
    EXPECT_TRUE(std::equal(logits.begin(), logits.end(),
                           response.context_logits.begin() + static_cast<ptrdiff_t>(i * 50)));
    if (i + 1 < prompt.size()) {
      double sum = 0.0;
      for (const float logit : logits) {
        sum += std::exp(static_cast<double>(logit));
      }
      const auto next = static_cast<size_t>(prompt[i + 1]);
      EXPECT_NEAR(response.prompt_logprobs[i].chosen.logprob, logits[next] - std::log(sum), 1e-4);
      EXPECT_EQ(response.prompt_logprobs[i].chosen.token, prompt[i + 1]);
    }
  }
  EXPECT_TRUE(std::equal(response.generation_logits.begin(),
                         response.generation_logits.begin() + 50,
                         response.context_logits.end() - 50));
}

// Requests that need logits, several sequences of one row, and choices of every kind share steps:
// each gets what it gets alone.
TEST_F(StepLoopTest, ChoicesAndLogitsShareAStep) {
  SamplingParams drawn = tokens(6);
  drawn.temperature = 2.0f;
  drawn.seed = 11;
  drawn.repetition_penalty = 1.3f;
  SamplingParams several = drawn;
  several.n = 3;
  SamplingParams listed = tokens(6);
  listed.logprobs = 2;
  listed.bad_words = {{7}};
  const auto with_logits = [](Request& request) { request.return_generation_logits = true; };
  const auto add_one = [&](RequestId id) {
    switch (id) {
      case 1:
        return add(id, {3, 4, 5}, drawn);
      case 2:
        return add(id, {6, 7}, drawn, with_logits);
      case 3:
        return add(id, {3, 4, 5}, several);
      case 4:
        return add(id, {8}, listed);
      default:
        return add(id, {9, 10}, tokens(6));
    }
  };
  constexpr RequestId kRequests = 5;
  std::map<RequestId, std::vector<Response>> alone;
  for (RequestId id = 1; id <= kRequests; ++id) {
    start();
    ASSERT_TRUE(add_one(id).ok());
    alone[id] = run().at(id);
  }
  start();
  for (RequestId id = 1; id <= kRequests; ++id) {
    ASSERT_TRUE(add_one(id).ok());
  }
  const auto together = run();
  for (RequestId id = 1; id <= kRequests; ++id) {
    ASSERT_EQ(together.at(id).size(), alone.at(id).size());
    for (size_t i = 0; i < alone.at(id).size(); ++i) {
      const Response& a = alone.at(id)[i];
      const Response& b = together.at(id)[i];
      EXPECT_EQ(a.token_ids.size(), 6u);
      EXPECT_EQ(a.token_ids, b.token_ids) << id;
      EXPECT_EQ(a.generation_logits, b.generation_logits) << id;
      EXPECT_EQ(a.cumulative_logprob, b.cumulative_logprob) << id;
    }
  }
  EXPECT_EQ(alone.at(2)[0].generation_logits.size(), 6u * 50);
  EXPECT_EQ(alone.at(4)[0].logprobs.size(), 6u);
}

TEST_F(StepLoopTest, NoOutputTokensGiveThePromptsLogprobsAlone) {
  start();
  SamplingParams sampling = tokens(0);
  sampling.prompt_logprobs = 1;
  ASSERT_TRUE(add(1, {3, 4, 5}, sampling).ok());
  const Response response = run().at(1)[0];
  EXPECT_EQ(response.prompt_logprobs.size(), 2u);
  EXPECT_TRUE(response.token_ids.empty());
  EXPECT_EQ(response.finish_reason, FinishReason::kLength);
  EXPECT_TRUE(response.is_final);
}

TEST_F(StepLoopTest, ChoicesAreTheSamplesOfTheirOwnStreams) {
  start();
  SamplingParams sampling = tokens(10);
  sampling.temperature = 2.0f;
  sampling.seed = 11;
  sampling.n = 3;
  ASSERT_TRUE(add(1, {3, 4, 5, 6, 7}, sampling).ok());
  const auto responses = run().at(1);
  ASSERT_EQ(responses.size(), 3u);
  std::set<Tokens> different;
  int finals = 0;
  for (const Response& response : responses) {
    different.insert(response.token_ids);
    finals += response.is_final ? 1 : 0;
    EXPECT_EQ(response.token_ids.size(), 10u);
  }
  EXPECT_EQ(different.size(), 3u);
  EXPECT_EQ(finals, 1);
}

TEST_F(StepLoopTest, OneSequenceCanBeCancelledAtAnyTime) {
  start();
  SamplingParams sampling = tokens(6);
  sampling.n = 3;
  ASSERT_TRUE(add(1, {3, 4, 5, 6, 7}, sampling).ok());
  loop_->cancel_sequence(1, 1);
  loop_->step();
  loop_->cancel_sequence(1, 0);
  loop_->cancel_sequence(1, 0);
  const auto responses = run().at(1);
  ASSERT_EQ(responses.size(), 3u);
  EXPECT_EQ(responses[0].sequence_index, 1);
  EXPECT_TRUE(responses[0].token_ids.empty());
  EXPECT_EQ(responses[1].sequence_index, 0);
  EXPECT_EQ(responses[1].token_ids.size(), 1u);
  EXPECT_EQ(responses[2].token_ids, greedy_continuation({3, 4, 5, 6, 7}, 6));
  EXPECT_TRUE(responses[2].is_final);
}

TEST_F(StepLoopTest, AFailedStepEndsItsRequestsAndTheNextOnesRun) {
  FakeOptions options;
  options.before_step = [](int step) -> Result<void> {
    return step == 2 ? Result<void>(internal_error("device lost")) : Result<void>();
  };
  start(options);
  ASSERT_TRUE(add(1, {3, 4}, tokens(5)).ok());
  ASSERT_TRUE(add(2, {5, 6}, tokens(5)).ok());
  loop_->step();
  ASSERT_TRUE(add(3, {7, 8}, tokens(5)).ok());
  loop_->step();
  ASSERT_TRUE(add(4, {7, 8}, tokens(5)).ok());
  const auto responses = run();
  for (const RequestId id : {1, 2, 3}) {
    ASSERT_TRUE(responses.at(id)[0].error.has_value());
    EXPECT_EQ(responses.at(id)[0].error->message, "device lost");
    EXPECT_TRUE(responses.at(id)[0].is_final);
  }
  EXPECT_EQ(responses.at(4)[0].token_ids, greedy_continuation({7, 8}, 5));
}

TEST_F(StepLoopTest, ARowThatIsNotFiniteEndsItsOwnRequestOnly) {
  FakeOptions options;
  options.poison_token = 48;
  start(options);
  ASSERT_TRUE(add(1, {3, 4}, tokens(5)).ok());
  ASSERT_TRUE(add(2, {5, 48}, tokens(5)).ok());
  ASSERT_TRUE(add(3, {5, 48}, tokens(5), [](Request& r) { r.sampling.n = 3; }).ok());
  const auto responses = run();
  EXPECT_EQ(responses.at(1)[0].token_ids, greedy_continuation({3, 4}, 5));
  EXPECT_EQ(responses.at(2)[0].error->code, ErrorCode::kInternal);
  ASSERT_EQ(responses.at(3).size(), 1u);
  EXPECT_TRUE(responses.at(3)[0].error.has_value());
}

TEST_F(StepLoopTest, AnExceptionInAStepLeavesNothingBehind) {
  FakeOptions options;
  options.before_step = [](int step) -> Result<void> {
    if (step == 2) {
      throw std::bad_alloc();
    }
    return {};
  };
  start(options);
  ASSERT_TRUE(add(1, {3, 4}, tokens(5)).ok());
  loop_->step();
  EXPECT_THROW(loop_->step(), std::bad_alloc);
  loop_->fail_all(internal_error("a step failed"));
  EXPECT_EQ(loop_->kv_cache_stats().used_blocks, 0);
  ASSERT_TRUE(add(2, {3, 4}, tokens(5)).ok());
  EXPECT_EQ(run().at(2)[0].token_ids, greedy_continuation({3, 4}, 5));
}

TEST_F(StepLoopTest, DeadlinesCountFromArrivalInQueueAndInGeneration) {
  FakeOptions options;
  options.limits.max_batch_size = 1;
  start(options);
  ASSERT_TRUE(add(1, {3, 4}, tokens(30), [](Request& r) { r.allotted_ms = 10; }).ok());
  ASSERT_TRUE(add(2, {5, 6}, tokens(30), [](Request& r) { r.allotted_ms = 5; }).ok());
  ASSERT_TRUE(add(3, {7, 8}, tokens(3)).ok());
  const auto responses = run();
  EXPECT_EQ(responses.at(1)[0].finish_reason, FinishReason::kTimedOut);
  EXPECT_EQ(responses.at(1)[0].token_ids.size(), 10u);
  EXPECT_EQ(responses.at(2)[0].finish_reason, FinishReason::kTimedOut);
  EXPECT_TRUE(responses.at(2)[0].token_ids.empty());
  EXPECT_LT(responses.at(2)[0].timings.first_scheduled_ms, 0.0);
  EXPECT_EQ(responses.at(3)[0].token_ids.size(), 3u);
}

TEST_F(StepLoopTest, WithoutMaxTokensTheOutputFillsTheSequenceLimitOrTheCache) {
  start();
  ASSERT_TRUE(add(1, {3, 4, 5}, {}).ok());
  EXPECT_EQ(run().at(1)[0].token_ids.size(), 253u);
  FakeOptions options;
  options.limits.num_kv_blocks = 5;
  start(options);
  ASSERT_TRUE(add(1, {3, 4, 5}, {}).ok());
  EXPECT_EQ(run().at(1)[0].token_ids.size(), 18u);
}

TEST_F(StepLoopTest, RequestsThatCannotRunAreRefusedWithTheNumbers) {
  start();
  EXPECT_EQ(add(1, {}, tokens(1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(add(1, {3, 50}, tokens(1)).error().message.find("token 50; ids are 0 to 49"),
            std::string::npos);
  EXPECT_EQ(add(1, Tokens(201, 1), tokens(1)).error().code, ErrorCode::kCapacity);
  EXPECT_EQ(add(1, Tokens(200, 1), tokens(57)).error().code, ErrorCode::kCapacity);
  EXPECT_FALSE(add(1, {1}, tokens(1), [](Request& r) { r.end_ids = {-1}; }).ok());
  EXPECT_FALSE(add(1, {1}, tokens(1), [](Request& r) { r.allotted_ms = -1; }).ok());
  EXPECT_FALSE(loop_->has_work());
}

TEST_F(StepLoopTest, ConfigurationBeyondTheEngineIsRefused) {
  FakeRunner runner({});
  const auto create = [&](const ExecutorConfig& config) {
    return StepLoop::create(
        runner, config, [] { return 0.0; }, 0);
  };
  EXPECT_TRUE(create({}).ok());
  EXPECT_NE(create({.max_batch_size = 9}).error().message.find("max_batch_size is 9"),
            std::string::npos);
  EXPECT_FALSE(create({.max_num_tokens = 65}).ok());
  EXPECT_FALSE(create({.max_seq_len = -1}).ok());
  EXPECT_FALSE(create({.max_queue_size = 0}).ok());
}

TEST_F(StepLoopTest, StatisticsCountWhatHappened) {
  start();
  ASSERT_TRUE(add(1, {3, 4, 5, 6, 7, 8}, tokens(2)).ok());
  loop_->step();
  ASSERT_TRUE(add(2, {3, 4, 5, 6, 7, 8}, tokens(1)).ok());
  run();
  const auto stats = loop_->take_stats();
  ASSERT_EQ(stats.size(), 2u);
  EXPECT_EQ(stats[0].context_requests, 1);
  EXPECT_EQ(stats[0].context_tokens, 6);
  EXPECT_EQ(stats[0].completed_requests, 0);
  EXPECT_EQ(stats[0].active_requests, 1);
  EXPECT_EQ(stats[1].context_tokens, 2);
  EXPECT_EQ(stats[1].generation_requests, 1);
  EXPECT_EQ(stats[1].completed_requests, 2);
  EXPECT_EQ(stats[1].kv_cache.reused_blocks, 1);
  EXPECT_EQ(stats[1].kv_cache.used_blocks, 0);
}

TEST_F(StepLoopTest, SaltsKeepPrefixesApart) {
  start();
  const Tokens prompt = {3, 4, 5, 6, 7, 8};
  ASSERT_TRUE(add(1, prompt, tokens(1)).ok());
  run();
  ASSERT_TRUE(add(2, prompt, tokens(1), [](Request& r) { r.cache_salt = "tenant"; }).ok());
  EXPECT_EQ(run().at(2)[0].timings.reused_tokens, 0);
  ASSERT_TRUE(add(3, prompt, tokens(1)).ok());
  EXPECT_EQ(run().at(3)[0].timings.reused_tokens, 4);
}

}  // namespace
}  // namespace zonda::runtime
