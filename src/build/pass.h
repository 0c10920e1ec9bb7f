// A rewrite of the graph: named, timed, verified after, can be printed and switched off.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "build/weight_source.h"
#include "graph/graph.h"

namespace zonda::build {

struct PassContext {
  const WeightSource& weights;
};

struct Pass {
  std::string_view name;
  std::string_view purpose;  // one sentence, for --help
  // Rewrites the graph and returns how many rewrites were made.
  int64_t (*run)(graph::Graph& graph, const PassContext& context);
};

// The ordered list: what a build does to a graph, all of it.
std::span<const Pass> passes();

int64_t merge_gated_linears(graph::Graph& graph, const PassContext& context);
int64_t fuse_residual(graph::Graph& graph, const PassContext& context);
int64_t fuse_rope_append(graph::Graph& graph, const PassContext& context);
int64_t hoist_select(graph::Graph& graph, const PassContext& context);
int64_t remove_dead_nodes(graph::Graph& graph, const PassContext& context);

}  // namespace zonda::build
