// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/graph_shape.h"

#include <gtest/gtest.h>

namespace zonda::engine::cuda {
namespace {

constexpr GraphLimits kLimits = {256, 2048, 100};

StepShapeKey decode(int64_t batch, int32_t blocks) {
  StepShapeKey step;
  step.tokens = step.selected = batch;
  step.decoding = static_cast<int32_t>(batch);
  step.table_blocks = blocks;
  return step;
}

TEST(GraphShape, BatchesArePaddedToFewSizes) {
  for (const auto& [batch, padded] :
       {std::pair{1, 1}, {5, 5}, {8, 8}, {9, 16}, {33, 40}, {64, 64}, {65, 80}, {250, 256}}) {
    const auto shape = graph_shape(decode(batch, 1), kLimits);
    ASSERT_TRUE(shape.has_value());
    EXPECT_EQ(shape->tokens, padded);
    EXPECT_EQ(shape->decoding, padded);
    EXPECT_EQ(shape->selected, padded);
  }
}

TEST(GraphShape, TablesGrowByPowersOfTwoUpToTheLongestSequence) {
  EXPECT_EQ(graph_shape(decode(1, 3), kLimits)->table_blocks, 16);
  EXPECT_EQ(graph_shape(decode(1, 17), kLimits)->table_blocks, 32);
  EXPECT_EQ(graph_shape(decode(1, 70), kLimits)->table_blocks, 100);
}

TEST(GraphShape, PaddingStaysWithinTheLimits) {
  EXPECT_EQ(graph_shape(decode(9, 1), {12, 2048, 100})->tokens, 12);
  EXPECT_EQ(graph_shape(decode(9, 1), {64, 10, 100})->tokens, 10);
}

TEST(GraphShape, OtherStepsHaveNone) {
  StepShapeKey step = decode(4, 1);
  step.prefilling = 1;
  EXPECT_FALSE(graph_shape(step, kLimits).has_value());
  step = decode(4, 1);
  step.selected = 3;
  EXPECT_FALSE(graph_shape(step, kLimits).has_value());
  EXPECT_FALSE(graph_shape(StepShapeKey{}, kLimits).has_value());
}

}  // namespace
}  // namespace zonda::engine::cuda
