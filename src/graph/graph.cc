// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <algorithm>
#include <array>

namespace zonda::graph {

const char* op_name(const Op& op) {
  constexpr std::array kNames = {"embedding",   "rms_norm",  "linear", "rotary", "kv_append",
                                 "rope_append", "attention", "add",    "gated",  "select"};
  static_assert(kNames.size() == std::variant_size_v<Op>);
  return kNames[op.index()];
}

int32_t producer_of(const Graph& graph, ValueId value) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].output == value) {
      return static_cast<int32_t>(i);
    }
  }
  return -1;
}

int32_t use_count(const Graph& graph, ValueId value) {
  int32_t uses = graph.logits == value ? 1 : 0;
  for (const Node& node : graph.nodes) {
    uses += static_cast<int32_t>(std::count(node.inputs.begin(), node.inputs.end(), value));
  }
  return uses;
}

}  // namespace zonda::graph
