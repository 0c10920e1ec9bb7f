// Laws of free memory: there is some, and a limit of the process lowers it.
// SPDX-License-Identifier: Apache-2.0
#include "device/host_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace zonda::device {
namespace {

TEST(HostMemory, ThereIsSome) { EXPECT_GT(available_host_memory(), int64_t{1} << 20); }

// Shadow memory of the address sanitizer takes terabytes of addresses, more than the limit here.
TEST(HostMemory, ALimitOfAddressesLowersIt) {
  const int64_t free = available_host_memory();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit lowered = before;
  lowered.rlim_cur = rlim_t{3} << 29;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &lowered), 0);
  const int64_t limited = available_host_memory();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_LE(limited, int64_t{3} << 29);
  EXPECT_LE(limited, free);
  EXPECT_GE(limited, 0);
}

}  // namespace
}  // namespace zonda::device
