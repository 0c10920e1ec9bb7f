// add(r, linear(x, W)) -> linear(x, W, residual r).
// SPDX-License-Identifier: Apache-2.0
#include "build/pass.h"
#include "build/passes/rewrite.h"

namespace zonda::build {

int64_t fuse_residual(graph::Graph& graph, const PassContext& context) {
  int64_t changes = 0;
  for (graph::Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::AddOp>(node.op)) {
      continue;
    }
    const graph::Node* linear = sole_producer<graph::LinearOp>(graph, node.inputs[1]);
    if (linear == nullptr ||
        std::get<graph::LinearOp>(linear->op).epilogue != graph::LinearEpilogue::kStore) {
      continue;
    }
    graph::LinearOp fused = std::get<graph::LinearOp>(linear->op);
    fused.epilogue = graph::LinearEpilogue::kAddResidual;
    node.inputs = {linear->inputs[0], node.inputs[0]};
    node.op = std::move(fused);
    ++changes;
  }
  if (changes > 0) {
    remove_dead_nodes(graph, context);
  }
  return changes;
}

}  // namespace zonda::build
