// SPDX-License-Identifier: Apache-2.0
#include "build/memory_planner.h"

#include <algorithm>

namespace zonda::build {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// The input whose memory the output takes over; -1 if the output needs memory of its own.
ValueId overwritten_input(const Node& node) {
  if (std::holds_alternative<graph::RotaryOp>(node.op) ||
      std::holds_alternative<graph::KvAppendOp>(node.op) ||
      std::holds_alternative<graph::RopeAppendOp>(node.op) ||
      std::holds_alternative<graph::AddOp>(node.op)) {
    return node.inputs[0];
  }
  const auto* linear = std::get_if<graph::LinearOp>(&node.op);
  if (linear != nullptr && linear->epilogue == graph::LinearEpilogue::kAddResidual) {
    return node.inputs[1];
  }
  return -1;
}

class Planner {
 public:
  explicit Planner(const Graph& graph) : graph_(graph), last_use_(graph.values.size(), -1) {
    plan_.slot_of_value.assign(graph.values.size(), -1);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId input : graph.nodes[i].inputs) {
        last_use_[static_cast<size_t>(input)] = static_cast<int64_t>(i);
      }
    }
    last_use_[static_cast<size_t>(graph.logits)] = static_cast<int64_t>(graph.nodes.size());
  }

  MemoryPlan run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const ValueId reused = overwritten_input(node);
      const bool last =
          reused >= 0 && last_use_[static_cast<size_t>(reused)] == static_cast<int64_t>(i);
      const int32_t slot = last ? slot_of(reused) : free_slot(node);
      plan_.slot_of_value[static_cast<size_t>(node.output)] = slot;
      busy_[static_cast<size_t>(slot)] = true;
      release_inputs(node, static_cast<int64_t>(i), slot);
    }
    return std::move(plan_);
  }

 private:
  int32_t slot_of(ValueId value) const { return plan_.slot_of_value[static_cast<size_t>(value)]; }

  // A free slot of exactly this shape (kernels take rows side by side), or a new one.
  int32_t free_slot(const Node& node) {
    const graph::Value& value = graph_.values[static_cast<size_t>(node.output)];
    const bool selected = value.rows == graph::RowDomain::kSelected;
    for (size_t i = 0; i < busy_.size(); ++i) {
      if (!busy_[i] && plan_.slots[i].columns == value.columns &&
          plan_.slots[i].selected_rows == selected) {
        return static_cast<int32_t>(i);
      }
    }
    plan_.slots.push_back({value.columns, selected});
    busy_.push_back(true);
    return static_cast<int32_t>(busy_.size()) - 1;
  }

  void release_inputs(const Node& node, int64_t index, int32_t output_slot) {
    for (const ValueId input : node.inputs) {
      if (last_use_[static_cast<size_t>(input)] == index && slot_of(input) != output_slot) {
        busy_[static_cast<size_t>(slot_of(input))] = false;
      }
    }
  }

  const Graph& graph_;
  std::vector<int64_t> last_use_;  // by value: index of the last node that reads it
  std::vector<bool> busy_;         // by slot
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const graph::Graph& graph) { return Planner(graph).run(); }

}  // namespace zonda::build
