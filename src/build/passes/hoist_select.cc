// select(rms_norm(x)) -> rms_norm(select(x)): a norm treats rows alone, so the others need none.
// SPDX-License-Identifier: Apache-2.0
#include "build/pass.h"
#include "build/passes/rewrite.h"

namespace zonda::build {

int64_t hoist_select(graph::Graph& graph, const PassContext&) {
  int64_t changes = 0;
  for (graph::Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::SelectOp>(node.op)) {
      continue;
    }
    graph::Node* norm = sole_producer<graph::RmsNormOp>(graph, node.inputs[0]);
    if (norm == nullptr) {
      continue;
    }
    // The two nodes change places: the first now selects, the second normalises.
    std::swap(norm->op, node.op);
    std::swap(norm->name, node.name);
    graph.values[static_cast<size_t>(norm->output)].rows = graph::RowDomain::kSelected;
    std::swap(graph.values[static_cast<size_t>(norm->output)].name,
              graph.values[static_cast<size_t>(node.output)].name);
    ++changes;
  }
  return changes;
}

}  // namespace zonda::build
