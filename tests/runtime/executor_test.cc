// Laws of Executor across threads: order, bounds, cancels, shutdown, and that nothing is left.
// SPDX-License-Identifier: Apache-2.0
#include "zonda/executor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "runtime/fake_runner.h"
#include "runtime/leak_meter.h"
#include "test_support/round_seed.h"

namespace zonda::runtime {
namespace {

using std::chrono::milliseconds;
using Tokens = std::vector<int32_t>;

// Every test ends with threads, descriptors and blocks as at its start.
class ExecutorTest : public testing::Test {
 protected:
  void start(const FakeOptions& options = {}, const ExecutorConfig& config = {}) {
    auto executor = Executor::create(std::make_unique<FakeRunner>(options), config);
    ASSERT_TRUE(executor.ok()) << executor.error().message;
    executor_ = std::move(*executor);
  }

  static Request request(const Tokens& prompt, int32_t max_tokens, bool streaming = false) {
    Request request;
    request.input_token_ids = prompt;
    request.sampling.max_tokens = max_tokens;
    request.streaming = streaming;
    return request;
  }

  RequestId enqueue(const Request& request) {
    auto id = executor_->enqueue(request);
    EXPECT_TRUE(id.ok()) << id.error().message;
    return id.ok() ? *id : 0;
  }

  // All responses of a request, in order.
  std::vector<Response> finish(RequestId id) {
    std::vector<Response> all;
    while (all.empty() || !all.back().is_final) {
      auto responses = executor_->await_responses(id);
      if (!responses) {
        ADD_FAILURE() << responses.error().message;
        break;
      }
      std::move(responses->begin(), responses->end(), std::back_inserter(all));
    }
    return all;
  }

  // Steps that take long enough to act in the middle of a request.
  static FakeOptions slow(milliseconds step = milliseconds(1)) {
    FakeOptions options;
    options.before_step = [step](int) -> Result<void> {
      std::this_thread::sleep_for(step);
      return {};
    };
    return options;
  }

  void wait_until_idle() {
    for (int i = 0; i < 2000 && executor_->kv_cache_stats().used_blocks > 0; ++i) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  void TearDown() override {
    if (executor_ != nullptr) {
      wait_until_idle();
      EXPECT_EQ(executor_->kv_cache_stats().used_blocks, 0);
      executor_->shutdown();
      EXPECT_EQ(executor_->num_responses_ready(), 0u);
      executor_.reset();
    }
    meter_.expect_unchanged();
  }

  LeakMeter meter_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(ExecutorTest, AnswersAreThoseOfTheModel) {
  start();
  const RequestId id = enqueue(request({1, 2, 3}, 12));
  const auto responses = finish(id);
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_EQ(responses[0].token_ids, greedy_continuation({1, 2, 3}, 12));
  EXPECT_EQ(executor_->await_responses(id).error().code, ErrorCode::kNotFound);
  EXPECT_GE(responses[0].timings.first_token_ms, responses[0].timings.first_scheduled_ms);
}

TEST_F(ExecutorTest, AwaitAnyReturnsEveryResponseOnce) {
  start();
  std::map<RequestId, Tokens> expected;
  for (int32_t i = 0; i < 40; ++i) {
    const Tokens prompt = {i, i + 1, i + 2};
    expected[enqueue(request(prompt, 9, i % 2 == 0))] = greedy_continuation(prompt, 9);
  }
  std::map<RequestId, Tokens> got;
  size_t finals = 0;
  while (finals < expected.size()) {
    for (const Response& response : executor_->await_responses()) {
      Tokens& tokens = got[response.request_id];
      tokens.insert(tokens.end(), response.token_ids.begin(), response.token_ids.end());
      finals += response.is_final ? 1 : 0;
    }
  }
  EXPECT_EQ(got, expected);
}

TEST_F(ExecutorTest, AwaitOfSeveralIdsKeepsTheirOrder) {
  start();
  const RequestId ids[] = {enqueue(request({1}, 3)), enqueue(request({2}, 5)),
                           enqueue(request({3}, 4))};
  const auto lists = executor_->await_responses(std::span(ids));
  ASSERT_TRUE(lists.ok());
  ASSERT_EQ(lists->size(), 3u);
  EXPECT_EQ(lists->at(1)[0].token_ids.size(), 5u);
  EXPECT_EQ(lists->at(2)[0].request_id, ids[2]);
}

TEST_F(ExecutorTest, ATimeoutReturnsEmptyAndLosesNothing) {
  start(slow(milliseconds(30)));
  const RequestId id = enqueue(request({1}, 2));
  EXPECT_TRUE(executor_->await_responses(id, milliseconds(1))->empty());
  EXPECT_TRUE(executor_->await_responses(milliseconds(0)).empty());
  EXPECT_EQ(finish(id).back().token_ids.size(), 2u);
}

TEST_F(ExecutorTest, InvalidRequestsAreRefusedAtOnce) {
  start();
  EXPECT_EQ(executor_->enqueue(request({}, 1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(executor_->enqueue(request({99}, 1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(executor_->enqueue(request({1}, 9999)).error().code, ErrorCode::kCapacity);
  Request bad = request({1}, 1);
  bad.sampling.top_p = 2.0f;
  EXPECT_EQ(executor_->enqueue(bad).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ExecutorTest, TheQueueIsBoundedAndCountsSequences) {
  FakeOptions options = slow(milliseconds(20));
  options.limits.max_batch_size = 1;
  start(options, {.max_queue_size = 3});
  const RequestId running = enqueue(request({1}, 50));
  while (executor_->latest_iteration_stats().empty()) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  Request pair = request({2}, 1);
  pair.sampling.n = 2;
  const RequestId waiting = enqueue(pair);
  EXPECT_TRUE(executor_->can_enqueue());
  EXPECT_NE(executor_->enqueue(pair).error().message.find("the queue is full"), std::string::npos);
  const RequestId last = enqueue(request({3}, 1));
  EXPECT_FALSE(executor_->can_enqueue());
  executor_->cancel(running);
  finish(running);
  finish(waiting);
  finish(last);
  EXPECT_TRUE(executor_->can_enqueue());
}

TEST_F(ExecutorTest, CancelEndsARequestWithItsTokensSoFar) {
  start(slow());
  const RequestId id = enqueue(request({1, 2}, 250, true));
  Tokens tokens;
  while (tokens.size() < 5) {
    const auto responses = executor_->await_responses(id);
    for (const Response& response : *responses) {
      tokens.insert(tokens.end(), response.token_ids.begin(), response.token_ids.end());
    }
  }
  executor_->cancel(id);
  executor_->cancel(id);
  const auto rest = finish(id);
  EXPECT_EQ(rest.back().finish_reason, FinishReason::kCancelled);
  executor_->cancel(id);
  executor_->cancel(123456);
}

TEST_F(ExecutorTest, AbandonLeavesNoResponse) {
  start(slow());
  const RequestId id = enqueue(request({1, 2}, 250, true));
  executor_->abandon(id);
  EXPECT_EQ(executor_->await_responses(id).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(executor_->num_responses_ready(id), 0u);
  const RequestId next = enqueue(request({1, 2}, 3));
  EXPECT_EQ(finish(next)[0].token_ids, greedy_continuation({1, 2}, 3));
}

TEST_F(ExecutorTest, ShutdownEndsEveryRequestAndRefusesNewOnes) {
  start(slow());
  const RequestId first = enqueue(request({1, 2}, 250));
  const RequestId second = enqueue(request({1, 2}, 250));
  std::thread waiter(
      [&] { EXPECT_EQ(finish(first).back().finish_reason, FinishReason::kCancelled); });
  executor_->shutdown();
  executor_->shutdown();
  waiter.join();
  EXPECT_EQ(finish(second).back().finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(executor_->enqueue(request({1}, 1)).error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(executor_->can_enqueue());
  EXPECT_TRUE(executor_->await_responses().empty());
}

TEST_F(ExecutorTest, AStepThatThrowsBecomesAnErrorAndTheThreadLives) {
  FakeOptions options;
  options.before_step = [](int step) -> Result<void> {
    if (step == 3) {
      throw std::runtime_error("no memory");
    }
    return {};
  };
  start(options);
  const auto failed = finish(enqueue(request({1, 2}, 9)));
  ASSERT_TRUE(failed.back().error.has_value());
  EXPECT_NE(failed.back().error->message.find("no memory"), std::string::npos);
  EXPECT_EQ(finish(enqueue(request({1, 2}, 9)))[0].token_ids, greedy_continuation({1, 2}, 9));
}

TEST_F(ExecutorTest, StatisticsAreKeptUpToTheirLimit) {
  start({}, {.stats_max_iterations = 4});
  finish(enqueue(request({1, 2}, 9)));
  const auto stats = executor_->latest_iteration_stats();
  ASSERT_EQ(stats.size(), 4u);
  EXPECT_EQ(stats.back().iteration, 9);
  EXPECT_TRUE(executor_->latest_iteration_stats().empty());
}

TEST_F(ExecutorTest, UnseededDrawsDifferAndSeededOnesRepeat) {
  start();
  Request drawn = request({1, 2}, 30);
  drawn.sampling.temperature = 3.0f;
  const Tokens first = finish(enqueue(drawn))[0].token_ids;
  EXPECT_NE(finish(enqueue(drawn))[0].token_ids, first);
  drawn.sampling.seed = 7;
  const Tokens seeded = finish(enqueue(drawn))[0].token_ids;
  EXPECT_EQ(finish(enqueue(drawn))[0].token_ids, seeded);
}

// 1,000 requests are cancelled after a random number of responses, by one of three ways, while
// others run; the others' tokens are as they would be alone.
TEST_F(ExecutorTest, AThousandCancelsAtRandomStepsDisturbNobody) {
  for (const SchedulerPolicy policy :
       {SchedulerPolicy::kGuaranteedNoEvict, SchedulerPolicy::kMaxUtilization}) {
    FakeOptions options;
    options.limits.num_kv_blocks = 70;
    start(options, {.policy = policy});
    std::mt19937 random(test::round_seed(3));
    std::map<RequestId, Tokens> kept;
    std::map<RequestId, Tokens> got;
    std::map<RequestId, int> countdown;
    int cancelled = 0;
    std::set<RequestId> open;  // their final response is still to come
    while (cancelled < 500 || !open.empty()) {
      while (cancelled < 500 && countdown.size() < 12) {
        const Tokens prompt(1 + random() % 12, static_cast<int32_t>(random() % 50));
        Request next = request(prompt, 1 + static_cast<int32_t>(random() % 20), true);
        if (random() % 4 == 0) {
          const RequestId id = enqueue(next);
          kept[id] = greedy_continuation(prompt, *next.sampling.max_tokens);
          open.insert(id);
        }
        next.sampling.n = 1 + static_cast<int32_t>(random() % 3);
        next.sampling.max_tokens = 200;
        if (policy == SchedulerPolicy::kGuaranteedNoEvict && next.sampling.n > 1) {
          next.sampling.max_tokens = 60;
        }
        const RequestId id = enqueue(next);
        countdown[id] = static_cast<int>(random() % 15);
        open.insert(id);
      }
      for (const Response& response : executor_->await_responses(milliseconds(1))) {
        Tokens& tokens = got[response.request_id];
        tokens.insert(tokens.end(), response.token_ids.begin(), response.token_ids.end());
        if (response.is_final) {
          EXPECT_EQ(open.erase(response.request_id), 1u);
        }
        EXPECT_FALSE(response.error.has_value());
      }
      for (auto at = countdown.begin(); at != countdown.end();) {
        if (--at->second > 0) {
          ++at;
          continue;
        }
        ++cancelled;
        const auto way = random() % 3;
        if (way == 0) {
          executor_->abandon(at->first);
          open.erase(at->first);
        } else if (way == 1) {
          executor_->cancel_sequence(at->first, 2);
          executor_->cancel_sequence(at->first, 0);
          executor_->cancel_sequence(at->first, 1);
        } else {
          executor_->cancel(at->first);
        }
        at = countdown.erase(at);
      }
    }
    for (const auto& [id, tokens] : kept) {
      EXPECT_EQ(got.at(id), tokens);
    }
    wait_until_idle();
    EXPECT_EQ(executor_->kv_cache_stats().used_blocks, 0);
    EXPECT_EQ(executor_->num_responses_ready(), 0u);
  }
}

TEST_F(ExecutorTest, ManyClientThreadsAtOnce) {
  start();
  std::vector<std::thread> clients;
  for (int32_t client = 0; client < 8; ++client) {
    clients.emplace_back([this, client] {
      for (int32_t i = 0; i < 20; ++i) {
        const Tokens prompt = {client, i, 3};
        const RequestId id = enqueue(request(prompt, 8, i % 2 == 0));
        if (i % 5 == 4) {
          executor_->abandon(id);
          continue;
        }
        Tokens tokens;
        for (const Response& response : finish(id)) {
          tokens.insert(tokens.end(), response.token_ids.begin(), response.token_ids.end());
        }
        EXPECT_EQ(tokens, greedy_continuation(prompt, 8));
        executor_->latest_iteration_stats();
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
}

}  // namespace
}  // namespace zonda::runtime
