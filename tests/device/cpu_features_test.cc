// Laws of the processor facts.
// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace zonda::device {
namespace {

constexpr CpuIsa kAll[] = {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16,
                           CpuIsa::kAmx};

TEST(CpuFeatures, EveryIsaNameParsesBackToItself) {
  for (const CpuIsa isa : kAll) {
    const Result<CpuIsa> parsed = parse_cpu_isa(cpu_isa_name(isa));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, isa);
  }
}

TEST(CpuFeatures, AnUnknownIsaNameIsNamedInTheError) {
  const Result<CpuIsa> parsed = parse_cpu_isa("avx3");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(parsed.error().message.find("avx3"), std::string::npos);
}

TEST(CpuFeatures, DetectionIsConstantAndAgreesWithTheKernelsFlags) {
  const CpuIsa isa = detect_cpu_isa();
  EXPECT_EQ(isa, detect_cpu_isa());
  std::ifstream file("/proc/cpuinfo");
  std::stringstream text;
  text << file.rdbuf();
  const auto has = [&](const char* flag) {
    return text.str().find(std::string(" ") + flag) != std::string::npos;
  };
  if (text.str().find("flags") == std::string::npos) {
    GTEST_SKIP() << "no x86 flags in /proc/cpuinfo";
  }
  EXPECT_EQ(isa >= CpuIsa::kAvx2, has("avx2") && has("fma") && has("f16c"));
  EXPECT_EQ(isa >= CpuIsa::kAvx512, has("avx512f") && has("avx512bw") && has("avx512dq") &&
                                        has("avx512vl") && has("avx512_vnni"));
  if (isa == CpuIsa::kAmx) {
    EXPECT_TRUE(has("amx_int8"));
  }
}

TEST(CpuFeatures, TheMachineHasANameAndAtLeastOneCpu) {
  EXPECT_FALSE(cpu_model_name().empty());
  EXPECT_GE(available_cpus(), 1);
}

}  // namespace
}  // namespace zonda::device
