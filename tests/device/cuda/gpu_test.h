// A fixture for tests that need a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

namespace zonda::test {

extern bool gpu_required;

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
      ASSERT_FALSE(gpu_required) << "no GPU: " << cudaGetErrorString(status);
      GTEST_SKIP() << "no GPU: " << cudaGetErrorString(status);
    }
  }
  void TearDown() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
  }
};

}  // namespace zonda::test
