// Small steps that passes share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "graph/graph.h"

namespace zonda::build {

// The node that computes `value`, if it holds an OpType and `value` has no other reader; otherwise
// null.
template <typename OpType>
graph::Node* sole_producer(graph::Graph& graph, graph::ValueId value) {
  const int32_t index = graph::producer_of(graph, value);
  if (index < 0 || graph::use_count(graph, value) != 1) {
    return nullptr;
  }
  graph::Node& node = graph.nodes[static_cast<size_t>(index)];
  return std::holds_alternative<OpType>(node.op) ? &node : nullptr;
}

}  // namespace zonda::build
