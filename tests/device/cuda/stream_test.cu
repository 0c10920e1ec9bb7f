// Laws of streams, events and graphs: order, time, and replays that see new contents.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <utility>

#include "device/cuda/dependent.cuh"
#include "device/cuda/device_memory.h"
#include "device/cuda/gpu_test.h"
#include "device/cuda/graph.h"
#include "device/cuda/stream.h"

namespace zonda::device::cuda {
namespace {

// value = value * 3 + step, after the kernels before it.
__global__ void advance(int* value, int step) {
  wait_for_previous();
  *value = *value * 3 + step;
  allow_next();
}

__global__ void sleep_ns(unsigned nanoseconds) {
  for (unsigned slept = 0; slept < nanoseconds; slept += 100000u) {
    __nanosleep(100000u);
  }
}

class Streams : public test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    stream_ = *Stream::create();
    value_ = *DeviceBuffer::allocate(sizeof(int));
    set_value(1);
  }
  void set_value(int value) {
    ASSERT_EQ(cudaMemcpy(value_.data(), &value, sizeof(int), cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // the copy may still be on its way
  }
  int value() const {
    int value = -1;
    EXPECT_EQ(cudaMemcpy(&value, value_.data(), sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
  }
  // Three dependent launches.
  Result<void> issue() {
    for (int step = 1; step <= 3; ++step) {
      if (launch(advance, dim3(1), dim3(1), 0, stream_.site(true), value_.as<int>(), step) !=
          cudaSuccess) {
        return Error{ErrorCode::kInternal, "launch"};
      }
    }
    return {};
  }
  static int issued(int value) { return ((value * 3 + 1) * 3 + 2) * 3 + 3; }

  Stream stream_;
  DeviceBuffer value_;
};

TEST_F(Streams, DependentLaunchesKeepTheirOrder) {
  ASSERT_TRUE(issue().ok());
  ASSERT_TRUE(stream_.synchronize().ok());
  EXPECT_EQ(value(), issued(1));
}

TEST_F(Streams, EventsMeasureAndOrderWork) {
  const Event start = *Event::create(true);
  const Event end = *Event::create(true);
  const Stream other = *Stream::create();
  ASSERT_TRUE(start.record(stream_).ok());
  sleep_ns<<<1, 1, 0, stream_.handle()>>>(20'000'000u);
  ASSERT_TRUE(end.record(stream_).ok());
  const Result<bool> done = end.is_done();
  ASSERT_TRUE(done.ok());
  EXPECT_FALSE(*done);
  ASSERT_TRUE(other.wait(end).ok());
  ASSERT_TRUE(other.synchronize().ok());
  EXPECT_TRUE(*end.is_done());
  const Result<float> elapsed = elapsed_ms(start, end);
  ASSERT_TRUE(elapsed.ok()) << elapsed.error().message;
  EXPECT_GT(*elapsed, 1.0f);
}

TEST_F(Streams, ACaptureExecutesNothingAndReplaysEverything) {
  ASSERT_TRUE(issue().ok());
  ASSERT_TRUE(stream_.synchronize().ok());
  set_value(5);
  Result<Graph> captured = Graph::capture(stream_, [this] { return issue(); });
  ASSERT_TRUE(captured.ok()) << captured.error().message;
  const Graph graph = *std::move(captured);
  EXPECT_EQ(graph.num_nodes(), 3u);
  ASSERT_TRUE(stream_.synchronize().ok());
  EXPECT_EQ(value(), 5);
  ASSERT_TRUE(graph.launch(stream_).ok());
  ASSERT_TRUE(graph.launch(stream_).ok());
  ASSERT_TRUE(stream_.synchronize().ok());
  EXPECT_EQ(value(), issued(issued(5)));
}

TEST_F(Streams, AFaultInsideACaptureComesBackAndTheStreamStaysUsable) {
  const Result<Graph> failed = Graph::capture(stream_, [] {
    return Result<void>(Error{ErrorCode::kCapacity, "ours"});
  });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message, "ours");
  const Result<Graph> waited =
      Graph::capture(stream_, [this] { return stream_.synchronize(); });  // not allowed there
  ASSERT_FALSE(waited.ok());
  ASSERT_TRUE(issue().ok());
  ASSERT_TRUE(stream_.synchronize().ok());
  EXPECT_EQ(value(), issued(1));
}

}  // namespace
}  // namespace zonda::device::cuda
