// Checks that a graph is well formed; run after the builder and after every pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "graph/graph.h"
#include "zonda/error.h"

namespace zonda::graph {

// kInternal names the node and the broken law: every input computed before use and by one node,
// arity, shapes, rows, layers within range, each layer appended once and before its attention,
// logits of vocab_size columns on kSelected rows.
Result<void> verify(const Graph& graph);

// One line a node: %out:tokens[576] = linear(%x) weight=... epilogue=...
std::string print(const Graph& graph);

}  // namespace zonda::graph
