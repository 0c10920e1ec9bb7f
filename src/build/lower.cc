// SPDX-License-Identifier: Apache-2.0
#include "build/lower.h"

#include <algorithm>

#include "base/error.h"
#include "build/memory_planner.h"

namespace zonda::build {
namespace {

using graph::Node;
using kernels::Epilogue;

class Lowering {
 public:
  Lowering(const graph::Graph& graph, const WeightSource& weights, const engine::Backend& backend,
           DType model, engine::EnginePlan& plan)
      : graph_(graph),
        weights_(weights),
        backend_(backend),
        model_(model),
        plan_(plan),
        memory_(plan_memory(graph)) {}

  Result<void> run() {
    plan_.slots = memory_.slots;
    plan_.num_heads = graph_.heads.num_heads;
    plan_.vocab_size = graph_.vocab_size;
    for (const Node& node : graph_.nodes) {
      Result<engine::Call> call =
          std::visit([&](const auto& op) { return lower(node, op); }, node.op);
      if (!call.ok()) {
        return call.error();
      }
      plan_.calls.push_back({node.name, std::move(*call)});
    }
    plan_.logits_slot = slot(graph_.logits);
    return {};
  }

 private:
  using Lowered = Result<engine::Call>;

  int32_t slot(graph::ValueId value) const {
    return memory_.slot_of_value[static_cast<size_t>(value)];
  }
  int32_t in(const Node& node, size_t i) const { return slot(node.inputs[i]); }
  int32_t out(const Node& node) const { return slot(node.output); }

  // Index of the matrix with these sources; matrices shared by several nodes (tied embeddings) are
  // packed once.
  Result<int32_t> matrix(const std::vector<graph::LinearPart>& parts, kernels::RowOrder order) {
    std::vector<std::string> sources;
    WeightType type;
    for (const graph::LinearPart& part : parts) {
      const Result<WeightType> stored = weights_.type(part.weight);
      if (!stored.ok()) {
        return stored.error();
      }
      if (stored->rows != part.rows) {
        return corrupt("[build] {} of {} has {} rows; the model's configuration needs {}.",
                       part.weight, weights_.folder(), stored->rows, part.rows);
      }
      WeightType same = *stored;
      same.rows = type.rows;
      if (!sources.empty() && !(same == type)) {
        return unsupported("[build] {} and {} are merged but stored differently.", sources[0],
                           part.weight);
      }
      const int64_t rows = type.rows + stored->rows;
      type = *stored;
      type.rows = rows;
      sources.push_back(part.weight);
    }
    for (size_t i = 0; i < plan_.matrices.size(); ++i) {
      if (plan_.matrices[i].sources == sources && plan_.matrices[i].packed.order == order) {
        return static_cast<int32_t>(i);
      }
    }
    const kernels::PackedType packed{backend_.stored_type(type, model_), order};
    plan_.matrices.push_back({std::move(sources), packed, 0, backend_.packed_bytes(packed)});
    return static_cast<int32_t>(plan_.matrices.size()) - 1;
  }

  Result<int32_t> vector(std::vector<std::string> sources, int64_t expected) {
    int64_t size = 0;
    for (const std::string& source : sources) {
      const Result<int64_t> own = weights_.vector_size(source);
      if (!own.ok()) {
        return own.error();
      }
      size += *own;
    }
    if (size != expected) {
      return corrupt("[build] {} of {} has {} elements; the model's configuration needs {}.",
                     sources[0], weights_.folder(), size, expected);
    }
    plan_.vectors.push_back({std::move(sources), size, 0});
    return static_cast<int32_t>(plan_.vectors.size()) - 1;
  }

  Lowered lower(const Node& node, const graph::EmbeddingOp& op) {
    const auto table = matrix({{op.table, "", graph_.vocab_size}}, kernels::RowOrder::kStacked);
    if (!table.ok()) {
      return table.error();
    }
    return engine::Call(engine::EmbeddingCall{*table, out(node)});
  }

  Lowered lower(const Node& node, const graph::RmsNormOp& op) {
    const auto weight =
        vector({op.weight}, graph_.values[static_cast<size_t>(node.output)].columns);
    if (!weight.ok()) {
      return weight.error();
    }
    return engine::Call(engine::RmsNormCall{in(node, 0), out(node), *weight, op.eps});
  }

  static Epilogue epilogue_of(const graph::LinearOp& op) {
    switch (op.epilogue) {
      case graph::LinearEpilogue::kStore:
        return Epilogue::kStore;
      case graph::LinearEpilogue::kAddResidual:
        return Epilogue::kAddResidual;
      case graph::LinearEpilogue::kGated:
        break;
    }
    return op.activation == graph::Activation::kSilu ? Epilogue::kGatedSilu
                                                     : Epilogue::kGatedGeluTanh;
  }

  Lowered lower(const Node& node, const graph::LinearOp& op) {
    engine::LinearCall call;
    call.x = in(node, 0);
    call.y = out(node);
    call.epilogue = epilogue_of(op);
    call.residual = op.epilogue == graph::LinearEpilogue::kAddResidual ? in(node, 1) : -1;
    const auto order = op.epilogue == graph::LinearEpilogue::kGated
                           ? kernels::RowOrder::kInterleaved
                           : kernels::RowOrder::kStacked;
    const auto packed = matrix(op.parts, order);
    if (!packed.ok()) {
      return packed.error();
    }
    call.matrix = *packed;
    if (!op.parts[0].bias.empty()) {
      std::vector<std::string> sources;
      int64_t rows = 0;
      for (const graph::LinearPart& part : op.parts) {
        sources.push_back(part.bias);
        rows += part.rows;
      }
      const auto bias = vector(std::move(sources), rows);
      if (!bias.ok()) {
        return bias.error();
      }
      call.bias = *bias;
    }
    return engine::Call(std::move(call));
  }

  // The kernels of these nodes work in place.
  Lowered in_place(const Node& node, engine::RopeAppendCall call) const {
    if (in(node, 0) != out(node)) {
      return unsupported("[build] {} changes its input in place, but the input is read later.",
                         node.name);
    }
    call.qkv = out(node);
    return engine::Call(call);
  }
  Lowered lower(const Node& node, const graph::RotaryOp&) {
    return in_place(node, {.layer = 0, .rotate = true, .append = false});
  }
  Lowered lower(const Node& node, const graph::KvAppendOp& op) {
    return in_place(node, {.layer = op.layer, .rotate = false, .append = true});
  }
  Lowered lower(const Node& node, const graph::RopeAppendOp& op) {
    return in_place(node, {.layer = op.layer, .rotate = true, .append = true});
  }

  Lowered lower(const Node& node, const graph::AttentionOp& op) {
    return engine::Call(
        engine::AttentionCall{in(node, 0), out(node), op.layer, op.scale, op.window, op.soft_cap});
  }
  Lowered lower(const Node& node, const graph::AddOp&) {
    return engine::Call(engine::AddCall{in(node, 0), in(node, 1), out(node)});
  }
  Lowered lower(const Node& node, const graph::GatedOp& op) {
    return engine::Call(engine::GatedCall{in(node, 0), in(node, 1), out(node),
                                          op.activation == graph::Activation::kGeluTanh});
  }
  Lowered lower(const Node& node, const graph::SelectOp&) {
    return engine::Call(engine::SelectCall{in(node, 0), out(node)});
  }

  const graph::Graph& graph_;
  const WeightSource& weights_;
  const engine::Backend& backend_;
  DType model_;
  engine::EnginePlan& plan_;
  MemoryPlan memory_;
};

}  // namespace

Result<void> lower(const graph::Graph& graph, const WeightSource& weights,
                   const engine::Backend& backend, DType model, engine::EnginePlan& plan) {
  return Lowering(graph, weights, backend, model, plan).run();
}

}  // namespace zonda::build
