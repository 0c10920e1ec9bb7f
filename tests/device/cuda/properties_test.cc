// Laws of device properties: plausible figures, and a wrong index is an error.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/properties.h"

#include <gtest/gtest.h>

#include "device/cuda/gpu_test.h"

namespace zonda::device::cuda {
namespace {

class Properties : public test::GpuTest {};

TEST(PropertiesWithoutGpu, SayWhatIsMissing) {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
    GTEST_SKIP() << "this machine has a GPU";
  }
  for (const Error& error : {count_devices().error(), query_device(0).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_NE(error.message.find("driver"), std::string::npos) << error.message;
  }
  EXPECT_FALSE(use_device(0).ok());
}

TEST_F(Properties, AreThoseOfTheDevice) {
  const Result<int> count = count_devices();
  ASSERT_TRUE(count.ok());
  EXPECT_GE(*count, 1);
  const Result<DeviceProperties> queried = query_device(0);
  ASSERT_TRUE(queried.ok()) << queried.error().message;
  EXPECT_FALSE(queried->name.empty());
  EXPECT_GE(queried->compute_capability, 80);
  EXPECT_GT(queried->num_sms, 0);
  EXPECT_GT(queried->l2_bytes, int64_t{1} << 20);
  EXPECT_GT(queried->memory_bytes, int64_t{1} << 30);
  EXPECT_GT(queried->max_shared_bytes, 48 << 10);
  EXPECT_GE(queried->driver_version, 13000);
  EXPECT_GE(queried->runtime_version, 13000);
  EXPECT_TRUE(use_device(0).ok());
}

TEST_F(Properties, AWrongIndexIsRefusedWithTheRange) {
  const int count = *count_devices();
  for (const int index : {-1, count}) {
    const Result<DeviceProperties> refused = query_device(index);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(use_device(index).ok());
  }
}

}  // namespace
}  // namespace zonda::device::cuda
