// Laws of the thread pool: every thread exactly once, complete on return, barriers in step.
// SPDX-License-Identifier: Apache-2.0
#include "device/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace zonda::device {
namespace {

constexpr std::array<int, 5> kSizes = {1, 2, 3, 4, 9};

TEST(ThreadPool, RunCallsTheBodyOnceForEachThread) {
  for (const int size : kSizes) {
    ThreadPool pool(size);
    EXPECT_EQ(pool.size(), size);
    std::vector<int> calls(static_cast<size_t>(size), 0);
    for (int job = 1; job <= 200; ++job) {
      pool.run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
      EXPECT_EQ(calls, std::vector<int>(calls.size(), job));
    }
  }
}

TEST(ThreadPool, ThreadZeroIsTheCaller) {
  ThreadPool pool(3);
  std::vector<std::thread::id> ids(3);
  pool.run([&](int thread) { ids[static_cast<size_t>(thread)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[1], ids[2]);
}

TEST(ThreadPool, WritesOfAJobAreSeenByTheCallerAndTheNextJob) {
  ThreadPool pool(4);
  std::vector<int64_t> values(4, 0);
  for (int64_t job = 0; job < 500; ++job) {
    pool.run([&](int thread) {
      const auto left = static_cast<size_t>((thread + 1) % 4);
      if (job % 2 == 0) {
        values[static_cast<size_t>(thread)] = job;
      } else {
        EXPECT_EQ(values[left], job - 1);
      }
    });
  }
}

TEST(ThreadPool, ParallelForCoversEachIndexOnceWithBoundsOnTheGrain) {
  for (const int size : kSizes) {
    ThreadPool pool(size);
    for (const int64_t count : {0, 1, 15, 16, 17, 100, 1000}) {
      for (const int64_t grain : {1, 4, 16}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
        pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          EXPECT_LT(begin, end);
          EXPECT_EQ(begin % grain, 0);
          EXPECT_TRUE(end % grain == 0 || end == count);
          for (int64_t i = begin; i < end; ++i) {
            ++hits[static_cast<size_t>(i)];
          }
        });
        for (const auto& hit : hits) {
          EXPECT_EQ(hit.load(), 1);
        }
      }
    }
  }
}

TEST(ThreadPool, ParallelForOfOneRangeStaysOnTheCaller) {
  ThreadPool pool(4);
  pool.parallel_for(16, 16, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 16);
    // Allowed only because no job is running.
    pool.run([](int) {});
  });
}

TEST(ThreadPool, NobodyPassesABarrierBeforeEverybodyArrived) {
  for (const int size : kSizes) {
    ThreadPool pool(size);
    constexpr int kRounds = 300;
    std::atomic<int> arrived{0};
    for (int job = 0; job < 3; ++job) {
      arrived = 0;
      pool.run([&](int) {
        for (int round = 1; round <= kRounds; ++round) {
          ++arrived;
          pool.barrier();
          EXPECT_EQ(arrived.load(), round * size);
          pool.barrier();
        }
      });
    }
  }
}

TEST(ThreadPool, SleepingWorkersWakeForTheNextJob) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  for (int job = 1; job <= 20; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.run([&](int) { ++calls; });
    EXPECT_EQ(calls.load(), 2 * job);
  }
}

TEST(ThreadPool, TheCallerWaitsForAWorkerThatOutlastsTheSpin) {
  ThreadPool pool(2);
  std::atomic<bool> done{false};
  pool.run([&](int thread) {
    if (thread == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
    }
  });
  EXPECT_TRUE(done.load());
}

TEST(ThreadPool, IsDestroyedWithoutAnyJob) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(3);
  }
}

TEST(ThreadPoolDeathTest, RunInsideAJobIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(1);
        pool.run([&](int) { pool.run([](int) {}); });
      },
      "CHECK failed");
}

}  // namespace
}  // namespace zonda::device
