// kv_append(rotary(qkv)) -> rope_append(qkv).
// SPDX-License-Identifier: Apache-2.0
#include "build/pass.h"
#include "build/passes/rewrite.h"

namespace zonda::build {

int64_t fuse_rope_append(graph::Graph& graph, const PassContext& context) {
  int64_t changes = 0;
  for (graph::Node& node : graph.nodes) {
    const auto* append = std::get_if<graph::KvAppendOp>(&node.op);
    if (append == nullptr) {
      continue;
    }
    const graph::Node* rotary = sole_producer<graph::RotaryOp>(graph, node.inputs[0]);
    if (rotary == nullptr) {
      continue;
    }
    const graph::RopeAppendOp fused{std::get<graph::RotaryOp>(rotary->op), append->layer};
    node.inputs = rotary->inputs;
    node.op = fused;
    ++changes;
  }
  if (changes > 0) {
    remove_dead_nodes(graph, context);
  }
  return changes;
}

}  // namespace zonda::build
