// SPDX-License-Identifier: Apache-2.0
#include "engine/cost.h"

#include <algorithm>

namespace zonda::engine {
namespace {

class CostModel {
 public:
  CostModel(const EnginePlan& plan, const StepShape& shape, const CostRules& rules)
      : plan_(plan), shape_(shape), rules_(rules) {}

  CallCost operator()(const EmbeddingCall& call) const {
    const PlanMatrix& table = matrix(call.matrix);
    const double row =
        static_cast<double>(table.bytes) / static_cast<double>(table.packed.type.rows);
    return {rows(call.y) * (row + rules_.activation_bytes * columns(call.y)), 0.0,
            ArithmeticKind::kFloat32};
  }
  CallCost operator()(const RmsNormCall& call) const { return rowwise(call.y, 2, 4.0); }
  CallCost operator()(const LinearCall& call) const {
    const PlanMatrix& weights = matrix(call.matrix);
    const double elements = static_cast<double>(weights.packed.type.rows) *
                            static_cast<double>(weights.packed.type.cols);
    CallCost cost;
    cost.bytes = static_cast<double>(weights.bytes);
    cost.operations = 2.0 * elements * rows(call.y);
    cost.arithmetic = arithmetic(weights.packed.type.format);
    return cost;
  }
  CallCost operator()(const RopeAppendCall& call) const {
    const double written = call.append ? rows(call.qkv) * 2.0 * kv_row_bytes() : 0.0;
    CallCost cost = rowwise(call.qkv, 2, 3.0);
    cost.bytes += written;
    return cost;
  }
  // Each sequence reads its keys and values once; each token scores the positions before it and
  // itself.
  CallCost operator()(const AttentionCall& call) const {
    const double per_sequence =
        static_cast<double>(shape_.tokens) / static_cast<double>(shape_.sequences);
    double visible = static_cast<double>(shape_.context) + (per_sequence + 1.0) / 2.0;
    double cached = static_cast<double>(shape_.context) + per_sequence;
    if (call.window > 0) {
      visible = std::min(visible, static_cast<double>(call.window));
      cached = std::min(cached, static_cast<double>(call.window) + per_sequence);
    }
    CallCost cost;
    cost.arithmetic = rules_.attention;
    cost.bytes = static_cast<double>(shape_.sequences) * cached * 2.0 * kv_row_bytes();
    cost.operations =
        4.0 * static_cast<double>(shape_.tokens) * visible * static_cast<double>(columns(call.y));
    return cost;
  }
  CallCost operator()(const AddCall& call) const { return rowwise(call.y, 3, 1.0); }
  CallCost operator()(const GatedCall& call) const { return rowwise(call.y, 3, 12.0); }
  CallCost operator()(const SelectCall& call) const { return rowwise(call.y, 2, 0.0); }

 private:
  const PlanMatrix& matrix(int32_t index) const {
    return plan_.matrices[static_cast<size_t>(index)];
  }
  const PlanSlot& slot(int32_t index) const { return plan_.slots[static_cast<size_t>(index)]; }
  double columns(int32_t index) const { return static_cast<double>(slot(index).columns); }
  double rows(int32_t index) const {
    return static_cast<double>(slot(index).selected_rows ? shape_.selected : shape_.tokens);
  }
  // Keys of one position of a layer; values are as many bytes.
  double kv_row_bytes() const {
    return static_cast<double>(int64_t{plan_.kv.num_kv_heads} * plan_.kv.head_size *
                               dtype_size(plan_.kv.dtype));
  }
  CallCost rowwise(int32_t slot_index, int passes, double operations) const {
    const double elements = rows(slot_index) * columns(slot_index);
    return {rules_.activation_bytes * passes * elements, operations * elements,
            ArithmeticKind::kFloat32};
  }
  ArithmeticKind arithmetic(WeightFormat format) const {
    switch (format) {
      case WeightFormat::kFloat32:
        return rules_.float32;
      case WeightFormat::kFloat16:
        return rules_.float16;
      case WeightFormat::kBFloat16:
        return rules_.bfloat16;
      case WeightFormat::kInt8:
      case WeightFormat::kInt4:
      case WeightFormat::kFloat8E4M3:
        break;
    }
    return rules_.integer;
  }

  const EnginePlan& plan_;
  const StepShape& shape_;
  const CostRules& rules_;
};

}  // namespace

CallCost call_cost(const EnginePlan& plan, const Call& call, const StepShape& shape,
                   const CostRules& rules) {
  return std::visit(CostModel(plan, shape, rules), call);
}

double floor_seconds(const CallCost& cost, const kernels::MachineLimits& limits) {
  const double rate = cost.arithmetic == ArithmeticKind::kInt8       ? limits.int8_ops
                      : cost.arithmetic == ArithmeticKind::kBFloat16 ? limits.bf16_flops
                                                                     : limits.fp32_flops;
  return limits.floor_seconds(cost.bytes, cost.operations, rate);
}

}  // namespace zonda::engine
