// SPDX-License-Identifier: Apache-2.0
#include "graph/verify.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace zonda::graph {
namespace {

constexpr HeadLayout kHeads = {4, 2, 8};  // 64 columns of q, k, v

// One layer with every op of a decoder.
Graph small_graph() {
  GraphBuilder builder(kHeads, 1, 100);
  const ValueId hidden = builder.embedding("embedding", "table", 32);
  const ValueId normed = builder.rms_norm("norm", hidden, "n.weight", 1e-5f);
  ValueId qkv = builder.linear("qkv", normed, {"qkv.weight", "", 64});
  qkv = builder.rotary("rotary", qkv, {8, false});
  qkv = builder.kv_append("append", qkv, 0);
  const ValueId attended = builder.attention("attention", qkv, {});
  const ValueId sum = builder.add("sum", hidden, attended);
  const ValueId selected = builder.select("select", sum);
  return std::move(builder).finish(builder.linear("head", selected, {"head.weight", "", 100}));
}

Node& node(Graph& graph, std::string_view name) {
  for (Node& candidate : graph.nodes) {
    if (candidate.name == name) {
      return candidate;
    }
  }
  std::abort();
}

void expect_refused(const Graph& graph, std::string_view part) {
  const Result<void> verified = verify(graph);
  ASSERT_FALSE(verified.ok());
  EXPECT_NE(verified.error().message.find(part), std::string::npos) << verified.error().message;
}

TEST(Verify, AcceptsWhatTheBuilderMakes) { EXPECT_TRUE(verify(small_graph()).ok()); }

TEST(Verify, RefusesAValueThatIsReadBeforeItIsComputed) {
  Graph graph = small_graph();
  std::swap(graph.nodes[1], graph.nodes[2]);
  expect_refused(graph, "not computed before");
}

TEST(Verify, RefusesAValueThatIsComputedTwice) {
  Graph graph = small_graph();
  graph.nodes.push_back(graph.nodes.back());
  expect_refused(graph, "computed twice");
}

TEST(Verify, RefusesShapesThatDisagree) {
  Graph graph = small_graph();
  std::get<LinearOp>(node(graph, "qkv").op).parts[0].rows = 63;
  expect_refused(graph, "node qkv");
  graph = small_graph();
  std::get<LinearOp>(node(graph, "qkv").op).cols = 31;
  expect_refused(graph, "node qkv");
  graph = small_graph();
  graph.values[static_cast<size_t>(node(graph, "sum").output)].columns = 33;
  expect_refused(graph, "node sum");
}

TEST(Verify, RefusesALayerAppendedTwiceAndAttentionBeforeAnAppend) {
  Graph graph = small_graph();
  node(graph, "append").op = KvAppendOp{1};
  expect_refused(graph, "layer 1 is out of range");
  graph = small_graph();
  node(graph, "append").op = RotaryOp{8, false};
  expect_refused(graph, "not appended before");
}

TEST(Verify, RefusesLogitsOfAnotherSize) {
  Graph graph = small_graph();
  graph.vocab_size = 101;
  expect_refused(graph, "vocab_size");
  graph = small_graph();
  graph.logits = 0;
  expect_refused(graph, "logits");
}

TEST(Verify, RefusesAGatedLinearOfUnequalParts) {
  Graph graph = small_graph();
  auto& linear = std::get<LinearOp>(node(graph, "qkv").op);
  linear.epilogue = LinearEpilogue::kGated;
  expect_refused(graph, "two parts of equal rows");
}

TEST(Print, OneLineANodeWithInputsShapesAndWeights) {
  const std::string text = print(small_graph());
  EXPECT_NE(text.find("%qkv:tokens[64] = linear(%norm) weight=qkv.weight[64,32]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("return %head"), std::string::npos);
}

}  // namespace
}  // namespace zonda::graph
