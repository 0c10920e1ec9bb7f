// Laws of CUDA's status codes: each kind of failure has its own code, and its message helps.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_status.h"

#include <gtest/gtest.h>

#include <string>

namespace zonda::device::cuda {
namespace {

TEST(CudaStatus, SuccessIsNoError) { EXPECT_TRUE(check(cudaSuccess, "[test] nothing").ok()); }

TEST(CudaStatus, CodesFollowTheCause) {
  const auto code = [](cudaError_t status) { return check(status, "[test] it").error().code; };
  EXPECT_EQ(code(cudaErrorMemoryAllocation), ErrorCode::kCapacity);
  EXPECT_EQ(code(cudaErrorInsufficientDriver), ErrorCode::kUnsupported);
  EXPECT_EQ(code(cudaErrorStubLibrary), ErrorCode::kUnsupported);
  EXPECT_EQ(code(cudaErrorNoDevice), ErrorCode::kUnsupported);
  EXPECT_EQ(code(cudaErrorNoKernelImageForDevice), ErrorCode::kUnsupported);
  EXPECT_EQ(code(cudaErrorIllegalAddress), ErrorCode::kInternal);
  EXPECT_EQ(code(cudaErrorInvalidValue), ErrorCode::kInternal);
}

TEST(CudaStatus, MessagesNameWhatFailedAndWhatIsNeeded) {
  const std::string driver = check(cudaErrorInsufficientDriver, "[test] the call").error().message;
  EXPECT_EQ(driver.find("[test] the call failed"), 0u) << driver;
  EXPECT_NE(driver.find("driver"), std::string::npos) << driver;
  EXPECT_NE(driver.find("CUDA 13."), std::string::npos) << driver;
  EXPECT_NE(driver.find("580"), std::string::npos) << driver;
  const std::string fault = check(cudaErrorIllegalAddress, "[test] the call").error().message;
  EXPECT_NE(fault.find("cudaErrorIllegalAddress"), std::string::npos) << fault;
}

}  // namespace
}  // namespace zonda::device::cuda
