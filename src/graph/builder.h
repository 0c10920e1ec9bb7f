// Appends nodes to a graph; each call returns the value it computes. Shapes follow from the inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace zonda::graph {

class GraphBuilder {
 public:
  GraphBuilder(HeadLayout heads, int32_t num_layers, int64_t vocab_size);

  ValueId embedding(std::string name, std::string table, int64_t columns);
  ValueId rms_norm(std::string name, ValueId x, std::string weight, float eps);
  ValueId linear(std::string name, ValueId x, LinearPart part);
  ValueId rotary(std::string name, ValueId qkv, RotaryOp op);
  ValueId kv_append(std::string name, ValueId qkv, int32_t layer);
  ValueId attention(std::string name, ValueId qkv, AttentionOp op);
  ValueId add(std::string name, ValueId a, ValueId b);
  ValueId gated(std::string name, ValueId a, ValueId b, Activation activation);
  ValueId select(std::string name, ValueId x);

  // Ends the graph with `logits` as its output.
  Graph finish(ValueId logits) &&;

 private:
  ValueId append(std::string name, Op op, std::vector<ValueId> inputs, int64_t columns,
                 RowDomain rows);
  const Value& value(ValueId id) const { return graph_.values[static_cast<size_t>(id)]; }

  Graph graph_;
};

}  // namespace zonda::graph
