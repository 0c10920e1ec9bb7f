// Laws of ResponseQueue: each response once, waiting ends, nothing stays behind.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/response_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace zonda::runtime {
namespace {

using std::chrono::milliseconds;

Response response(RequestId id, int32_t token, bool final = false) {
  Response response;
  response.request_id = id;
  response.token_ids = {token};
  response.is_final = final;
  return response;
}

TEST(ResponseQueue, EachResponseIsTakenOnceAndTheFinalOneClosesTheRequest) {
  ResponseQueue queue;
  queue.open(1);
  queue.push({response(1, 10), response(1, 11)});
  EXPECT_EQ(queue.num_ready(1), 2u);
  EXPECT_EQ(queue.take(1, {})->size(), 2u);
  EXPECT_TRUE(queue.take(1, milliseconds(1))->empty());
  queue.push({response(1, 12, true)});
  EXPECT_EQ(queue.take(1, {})->size(), 1u);
  EXPECT_EQ(queue.take(1, {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(queue.num_open(), 0u);
}

TEST(ResponseQueue, AnyTakesFromAllRequests) {
  ResponseQueue queue;
  queue.open(1);
  queue.open(2);
  queue.push({response(2, 20), response(1, 10, true)});
  EXPECT_EQ(queue.num_ready({}), 2u);
  EXPECT_EQ(queue.take_any({}).size(), 2u);
  EXPECT_TRUE(queue.take_any(milliseconds(1)).empty());
  EXPECT_EQ(queue.num_open(), 1u);
}

TEST(ResponseQueue, ResponsesOfAnAbandonedRequestAreDropped) {
  ResponseQueue queue;
  queue.open(1);
  queue.push({response(1, 10)});
  queue.abandon(1);
  queue.push({response(1, 11, true)});
  EXPECT_EQ(queue.num_ready({}), 0u);
  EXPECT_EQ(queue.num_open(), 0u);
  queue.abandon(1);
}

TEST(ResponseQueue, TheLongestTimeoutStillWaits) {
  ResponseQueue queue;
  queue.open(1);
  std::thread pusher([&] {
    std::this_thread::sleep_for(milliseconds(20));
    queue.push({response(1, 10, true)});
  });
  EXPECT_EQ(queue.take(1, milliseconds::max())->size(), 1u);
  pusher.join();
  EXPECT_TRUE(queue.take_any(milliseconds(-5)).empty());
}

TEST(ResponseQueue, AWaiterWakesForItsResponseForAbandonAndForClose) {
  ResponseQueue queue;
  for (const RequestId id : {1, 2, 3}) {
    queue.open(id);
  }
  std::thread first([&] { EXPECT_EQ(queue.take(1, {})->at(0).token_ids[0], 10); });
  std::thread second([&] { EXPECT_FALSE(queue.take(2, {}).ok()); });
  std::thread third([&] { EXPECT_TRUE(queue.take(3, {})->empty()); });
  queue.push({response(1, 10, true)});
  first.join();
  queue.abandon(2);
  second.join();
  queue.close();
  third.join();
  EXPECT_TRUE(queue.take_any({}).empty());
}

}  // namespace
}  // namespace zonda::runtime
