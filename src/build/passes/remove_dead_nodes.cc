// Drops nodes without readers, last to first, so that whole dead chains go. Values keep their ids.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "build/pass.h"

namespace zonda::build {

int64_t remove_dead_nodes(graph::Graph& graph, const PassContext&) {
  std::vector<bool> live(graph.values.size(), false);
  live[static_cast<size_t>(graph.logits)] = true;
  std::vector<graph::Node> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (!live[static_cast<size_t>(node->output)]) {
      continue;
    }
    for (const graph::ValueId input : node->inputs) {
      live[static_cast<size_t>(input)] = true;
    }
    kept.push_back(std::move(*node));
  }
  const int64_t removed = static_cast<int64_t>(graph.nodes.size() - kept.size());
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  return removed;
}

}  // namespace zonda::build
