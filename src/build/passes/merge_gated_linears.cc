// gated(linear(x, A), linear(x, B)) -> linear(x, [A; B], gated epilogue).
// SPDX-License-Identifier: Apache-2.0
#include "build/pass.h"
#include "build/passes/rewrite.h"
#include "kernels/gemm/linear.h"

namespace zonda::build {
namespace {

using graph::LinearOp;
using graph::Node;

bool is_plain(const LinearOp& op) {
  return op.parts.size() == 1 && op.epilogue == graph::LinearEpilogue::kStore;
}

// Two matrices share panels only if they are stored alike, and whole panels of each interleave.
bool can_interleave(const LinearOp& a, const LinearOp& b, const WeightSource& weights) {
  if (!is_plain(a) || !is_plain(b) || a.cols != b.cols || a.parts[0].rows != b.parts[0].rows ||
      a.parts[0].rows % kernels::kPanelRows != 0 ||
      a.parts[0].bias.empty() != b.parts[0].bias.empty()) {
    return false;
  }
  const Result<WeightType> first = weights.type(a.parts[0].weight);
  const Result<WeightType> second = weights.type(b.parts[0].weight);
  return first.ok() && second.ok() && *first == *second;
}

}  // namespace

int64_t merge_gated_linears(graph::Graph& graph, const PassContext& context) {
  int64_t changes = 0;
  for (Node& node : graph.nodes) {
    const auto* gated = std::get_if<graph::GatedOp>(&node.op);
    if (gated == nullptr) {
      continue;
    }
    const Node* a = sole_producer<LinearOp>(graph, node.inputs[0]);
    const Node* b = sole_producer<LinearOp>(graph, node.inputs[1]);
    if (a == nullptr || b == nullptr || a->inputs != b->inputs ||
        !can_interleave(std::get<LinearOp>(a->op), std::get<LinearOp>(b->op), context.weights)) {
      continue;
    }
    LinearOp merged = std::get<LinearOp>(a->op);
    merged.parts.push_back(std::get<LinearOp>(b->op).parts[0]);
    merged.epilogue = graph::LinearEpilogue::kGated;
    merged.activation = gated->activation;
    node.inputs = a->inputs;
    node.op = std::move(merged);
    ++changes;
  }
  if (changes > 0) {
    remove_dead_nodes(graph, context);
  }
  return changes;
}

}  // namespace zonda::build
