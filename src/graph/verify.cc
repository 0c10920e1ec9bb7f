// SPDX-License-Identifier: Apache-2.0
#include "graph/verify.h"

#include <vector>

#include "base/error.h"

namespace zonda::graph {
namespace {

// Walks the nodes in order and remembers what has been computed.
class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph),
        defined_(graph.values.size(), false),
        appended_(static_cast<size_t>(graph.num_layers), false) {}

  Result<void> run() {
    for (const Node& node : graph_.nodes) {
      std::string fault = check_values(node);
      if (fault.empty()) {
        fault = std::visit([&](const auto& op) { return check(node, op); }, node.op);
      }
      if (!fault.empty()) {
        return internal_error("[verify] node {} ({}): {}.", node.name, op_name(node.op), fault);
      }
      defined_[static_cast<size_t>(node.output)] = true;
    }
    if (!known(graph_.logits) || !defined_[static_cast<size_t>(graph_.logits)]) {
      return internal_error("[verify] the logits value {} is never computed.", graph_.logits);
    }
    const Value& logits = value(graph_.logits);
    if (logits.columns != graph_.vocab_size || logits.rows != RowDomain::kSelected) {
      return internal_error("[verify] logits have {} columns; vocab_size is {}.", logits.columns,
                            graph_.vocab_size);
    }
    return {};
  }

 private:
  bool known(ValueId id) const { return id >= 0 && static_cast<size_t>(id) < graph_.values.size(); }
  const Value& value(ValueId id) const { return graph_.values[static_cast<size_t>(id)]; }
  const Value& in(const Node& node, size_t i) const { return value(node.inputs[i]); }
  const Value& out(const Node& node) const { return value(node.output); }

  std::string check_values(const Node& node) const {
    if (!known(node.output) || defined_[static_cast<size_t>(node.output)]) {
      return fmt::format("output value {} is unknown or computed twice", node.output);
    }
    for (const ValueId input : node.inputs) {
      if (!known(input) || !defined_[static_cast<size_t>(input)]) {
        return fmt::format("input value {} is not computed before", input);
      }
    }
    return {};
  }

  static std::string arity(const Node& node, size_t expected) {
    return node.inputs.size() == expected
               ? std::string()
               : fmt::format("has {} inputs, expected {}", node.inputs.size(), expected);
  }
  // The output has the input's rows and `columns` columns.
  std::string shaped(const Node& node, size_t inputs, int64_t columns) const {
    std::string fault = arity(node, inputs);
    if (fault.empty() && out(node).columns != columns) {
      fault = fmt::format("output has {} columns, expected {}", out(node).columns, columns);
    }
    for (const ValueId input : node.inputs) {
      if (fault.empty() && value(input).rows != out(node).rows) {
        fault = "input and output rows differ";
      }
    }
    return fault;
  }
  std::string qkv_row(const Node& node, int64_t columns) const {
    std::string fault = shaped(node, 1, columns);
    if (fault.empty() && in(node, 0).columns != graph_.heads.qkv_columns()) {
      fault = fmt::format("input has {} columns, a q, k, v row has {}", in(node, 0).columns,
                          graph_.heads.qkv_columns());
    }
    return fault;
  }

  std::string check(const Node& node, const EmbeddingOp&) const { return arity(node, 0); }
  std::string check(const Node& node, const RmsNormOp&) const {
    std::string fault = arity(node, 1);
    return fault.empty() ? shaped(node, 1, in(node, 0).columns) : fault;
  }
  std::string check(const Node& node, const LinearOp& op) const {
    int64_t rows = 0;
    for (const LinearPart& part : op.parts) {
      rows += part.rows;
    }
    const bool gated = op.epilogue == LinearEpilogue::kGated;
    if (gated && (op.parts.size() != 2 || op.parts[0].rows != op.parts[1].rows)) {
      return "a gated linear needs two parts of equal rows";
    }
    const size_t inputs = op.epilogue == LinearEpilogue::kAddResidual ? 2 : 1;
    std::string fault = shaped(node, inputs, gated ? rows / 2 : rows);
    if (fault.empty() && in(node, 0).columns != op.cols) {
      fault = fmt::format("input has {} columns, the weight {}", in(node, 0).columns, op.cols);
    }
    if (fault.empty() && inputs == 2 && in(node, 1).columns != rows) {
      fault = fmt::format("residual has {} columns, the output {}", in(node, 1).columns, rows);
    }
    return fault;
  }
  std::string check(const Node& node, const RotaryOp& op) const {
    if (op.rotary_dim < 0 || op.rotary_dim % 2 != 0 || op.rotary_dim > graph_.heads.head_size) {
      return fmt::format("rotary_dim {} is odd or above head_size {}", op.rotary_dim,
                         graph_.heads.head_size);
    }
    return qkv_row(node, graph_.heads.qkv_columns());
  }
  std::string append_to(const Node& node, int32_t layer) {
    if (layer < 0 || layer >= graph_.num_layers || appended_[static_cast<size_t>(layer)]) {
      return fmt::format("layer {} is out of range or appended twice", layer);
    }
    appended_[static_cast<size_t>(layer)] = true;
    return qkv_row(node, graph_.heads.qkv_columns());
  }
  std::string check(const Node& node, const KvAppendOp& op) { return append_to(node, op.layer); }
  std::string check(const Node& node, const RopeAppendOp& op) {
    std::string fault = check(node, op.rotary);
    return fault.empty() ? append_to(node, op.layer) : fault;
  }
  std::string check(const Node& node, const AttentionOp& op) const {
    if (op.layer < 0 || op.layer >= graph_.num_layers ||
        !appended_[static_cast<size_t>(op.layer)]) {
      return fmt::format("layer {} is out of range or not appended before", op.layer);
    }
    return qkv_row(node, int64_t{graph_.heads.num_heads} * graph_.heads.head_size);
  }
  std::string check(const Node& node, const AddOp&) const {
    std::string fault = arity(node, 2);
    return fault.empty() ? shaped(node, 2, in(node, 1).columns) : fault;
  }
  std::string check(const Node& node, const GatedOp&) const {
    std::string fault = arity(node, 2);
    return fault.empty() ? shaped(node, 2, in(node, 1).columns) : fault;
  }
  std::string check(const Node& node, const SelectOp&) const {
    std::string fault = arity(node, 1);
    if (fault.empty() &&
        (in(node, 0).rows != RowDomain::kTokens || out(node).rows != RowDomain::kSelected ||
         in(node, 0).columns != out(node).columns)) {
      fault = "takes token rows to selected rows of the same columns";
    }
    return fault;
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::vector<bool> appended_;
};

std::string attributes(const EmbeddingOp& op) { return fmt::format(" table={}", op.table); }
std::string attributes(const RmsNormOp& op) {
  return fmt::format(" weight={} eps={}", op.weight, op.eps);
}
std::string attributes(const LinearOp& op) {
  std::string text;
  for (const LinearPart& part : op.parts) {
    text += fmt::format(" weight={}[{},{}]{}", part.weight, part.rows, op.cols,
                        part.bias.empty() ? "" : " bias=" + part.bias);
  }
  if (op.epilogue == LinearEpilogue::kAddResidual) {
    text += " epilogue=add_residual";
  } else if (op.epilogue == LinearEpilogue::kGated) {
    text +=
        op.activation == Activation::kSilu ? " epilogue=gated_silu" : " epilogue=gated_gelu_tanh";
  }
  return text;
}
std::string attributes(const RotaryOp& op) {
  return fmt::format(" rotary_dim={}{}", op.rotary_dim, op.interleaved ? " interleaved" : "");
}
std::string attributes(const KvAppendOp& op) { return fmt::format(" layer={}", op.layer); }
std::string attributes(const RopeAppendOp& op) {
  return attributes(op.rotary) + fmt::format(" layer={}", op.layer);
}
std::string attributes(const AttentionOp& op) {
  return fmt::format(" layer={} scale={} window={} soft_cap={}", op.layer, op.scale, op.window,
                     op.soft_cap);
}
std::string attributes(const GatedOp& op) {
  return op.activation == Activation::kSilu ? " silu" : " gelu_tanh";
}
std::string attributes(const AddOp&) { return {}; }
std::string attributes(const SelectOp&) { return {}; }

}  // namespace

Result<void> verify(const Graph& graph) { return Verifier(graph).run(); }

std::string print(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    const Value& out = graph.values[static_cast<size_t>(node.output)];
    std::string inputs;
    for (const ValueId input : node.inputs) {
      inputs += fmt::format("{}%{}", inputs.empty() ? "" : ", ",
                            graph.values[static_cast<size_t>(input)].name);
    }
    text += fmt::format("%{}:{}[{}] = {}({}){}\n", out.name,
                        out.rows == RowDomain::kTokens ? "tokens" : "selected", out.columns,
                        op_name(node.op), inputs,
                        std::visit([](const auto& op) { return attributes(op); }, node.op));
  }
  text += fmt::format("return %{}\n", graph.values[static_cast<size_t>(graph.logits)].name);
  return text;
}

}  // namespace zonda::graph
