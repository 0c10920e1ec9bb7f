// SPDX-License-Identifier: Apache-2.0
#include "engine/fusions.h"

#include <gtest/gtest.h>

namespace zonda::engine {
namespace {

// norm 0 -> 1, linear 1 -> 2.
EnginePlan norm_and_linear() {
  EnginePlan plan;
  LinearCall linear;
  linear.x = 1;
  linear.y = 2;
  plan.calls = {{"norm", RmsNormCall{0, 1, 0, 1e-5f}}, {"linear", linear}};
  return plan;
}

LinearCall& linear_of(EnginePlan& plan) { return std::get<LinearCall>(plan.calls[1].call); }

TEST(FusableNorms, ANormThatOneLinearReadsMayBeFused) {
  EXPECT_EQ(fusable_norms(norm_and_linear()), (std::vector<int32_t>{-1, 0}));
}

TEST(FusableNorms, ANormThatIsReadAgainMayNot) {
  EnginePlan plan = norm_and_linear();
  plan.calls.push_back({"add", AddCall{1, 2, 3}});
  EXPECT_EQ(fusable_norms(plan), (std::vector<int32_t>{-1, -1, -1}));
  plan = norm_and_linear();
  linear_of(plan).residual = 1;
  EXPECT_EQ(fusable_norms(plan), (std::vector<int32_t>{-1, -1}));
}

TEST(FusableNorms, ALaterUseOfTheSlotForAnotherValueIsNoRead) {
  EnginePlan plan = norm_and_linear();
  plan.calls.push_back({"other", AddCall{2, 2, 1}});
  plan.calls.push_back({"reader", AddCall{1, 1, 3}});
  EXPECT_EQ(fusable_norms(plan)[1], 0);
}

TEST(FusableNorms, ALinearThatOverwritesTheNormsInputMayNotFuseIt) {
  EnginePlan plan = norm_and_linear();
  linear_of(plan).y = 0;
  EXPECT_EQ(fusable_norms(plan)[1], -1);
  plan = norm_and_linear();
  std::get<RmsNormCall>(plan.calls[0].call).y = 0;
  linear_of(plan).x = 0;
  EXPECT_EQ(fusable_norms(plan)[1], -1);
}

}  // namespace
}  // namespace zonda::engine
