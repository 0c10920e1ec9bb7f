// SPDX-License-Identifier: Apache-2.0
#include "graph/builder.h"

#include <utility>

#include "base/error.h"

namespace zonda::graph {

GraphBuilder::GraphBuilder(HeadLayout heads, int32_t num_layers, int64_t vocab_size) {
  graph_.heads = heads;
  graph_.num_layers = num_layers;
  graph_.vocab_size = vocab_size;
}

ValueId GraphBuilder::append(std::string name, Op op, std::vector<ValueId> inputs, int64_t columns,
                             RowDomain rows) {
  const ValueId id = static_cast<ValueId>(graph_.values.size());
  graph_.values.push_back({name, rows, columns});
  graph_.nodes.push_back({std::move(name), std::move(op), std::move(inputs), id});
  return id;
}

ValueId GraphBuilder::embedding(std::string name, std::string table, int64_t columns) {
  return append(std::move(name), EmbeddingOp{std::move(table)}, {}, columns, RowDomain::kTokens);
}

ValueId GraphBuilder::rms_norm(std::string name, ValueId x, std::string weight, float eps) {
  return append(std::move(name), RmsNormOp{std::move(weight), eps}, {x}, value(x).columns,
                value(x).rows);
}

ValueId GraphBuilder::linear(std::string name, ValueId x, LinearPart part) {
  const int64_t rows = part.rows;
  LinearOp op;
  op.parts = {std::move(part)};
  op.cols = value(x).columns;
  return append(std::move(name), std::move(op), {x}, rows, value(x).rows);
}

ValueId GraphBuilder::rotary(std::string name, ValueId qkv, RotaryOp op) {
  return append(std::move(name), op, {qkv}, value(qkv).columns, value(qkv).rows);
}

ValueId GraphBuilder::kv_append(std::string name, ValueId qkv, int32_t layer) {
  return append(std::move(name), KvAppendOp{layer}, {qkv}, value(qkv).columns, value(qkv).rows);
}

ValueId GraphBuilder::attention(std::string name, ValueId qkv, AttentionOp op) {
  const int64_t columns = int64_t{graph_.heads.num_heads} * graph_.heads.head_size;
  return append(std::move(name), op, {qkv}, columns, value(qkv).rows);
}

ValueId GraphBuilder::add(std::string name, ValueId a, ValueId b) {
  return append(std::move(name), AddOp{}, {a, b}, value(a).columns, value(a).rows);
}

ValueId GraphBuilder::gated(std::string name, ValueId a, ValueId b, Activation activation) {
  return append(std::move(name), GatedOp{activation}, {a, b}, value(a).columns, value(a).rows);
}

ValueId GraphBuilder::select(std::string name, ValueId x) {
  return append(std::move(name), SelectOp{}, {x}, value(x).columns, RowDomain::kSelected);
}

Graph GraphBuilder::finish(ValueId logits) && {
  CHECK(logits >= 0 && logits < static_cast<ValueId>(graph_.values.size()));
  graph_.logits = logits;
  return std::move(graph_);
}

}  // namespace zonda::graph
