// Laws of a plan that run() relies on.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/error.h"
#include "engine/backend.h"
#include "engine/plan.h"

namespace zonda::engine {
namespace {

constexpr int64_t kMaxColumns = int64_t{1} << 24;
constexpr int64_t kMaxTokens = int64_t{1} << 24;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

class PlanChecker {
 public:
  PlanChecker(const EnginePlan& plan, int64_t weights_bytes)
      : plan_(plan), weights_bytes_(weights_bytes) {}

  Result<void> run() {
    if (std::string fault = check_sizes(); !fault.empty()) {
      return corrupt("[plan] {}.", fault);
    }
    if (std::string fault = check_weights(); !fault.empty()) {
      return corrupt("[plan] {}.", fault);
    }
    for (const PlanCall& call : plan_.calls) {
      std::string fault = std::visit([&](const auto& c) { return check(c); }, call.call);
      if (!fault.empty()) {
        return corrupt("[plan] call {} ({}): {}.", call.name, call_name(call.call), fault);
      }
    }
    if (!is_slot(plan_.logits_slot) || columns(plan_.logits_slot) != plan_.vocab_size ||
        !selected(plan_.logits_slot)) {
      return corrupt("[plan] logits_slot {} does not hold [selected rows, {}].", plan_.logits_slot,
                     plan_.vocab_size);
    }
    return {};
  }

 private:
  static bool within(int64_t value, int64_t least, int64_t most) {
    return value >= least && value <= most;
  }

  bool supports(DType kv) const {
    const Backend* backend = find_backend(plan_.device);
    return backend == nullptr || backend->supports_kv_dtype(kv);
  }

  std::string check_sizes() const {
    const BuildLimits& limits = plan_.limits;
    const KvLayout& kv = plan_.kv;
    const bool limits_ok = within(limits.max_batch_size, 1, kMaxTokens) &&
                           within(limits.max_num_tokens, 1, kMaxTokens) &&
                           within(limits.max_seq_len, 1, kMaxPositions) &&
                           within(limits.max_input_len, 1, limits.max_seq_len) &&
                           limits.max_beam_width == 1;
    if (!limits_ok) {
      return "a limit is out of range";
    }
    const bool kv_ok = within(kv.num_layers, 1, 4096) && within(kv.num_kv_heads, 1, 4096) &&
                       within(kv.head_size, 1, 4096) && within(kv.tokens_per_block, 1, 4096) &&
                       supports(kv.dtype);
    if (!kv_ok || !within(plan_.num_heads, 1, 4096) || plan_.num_heads % kv.num_kv_heads != 0) {
      return "the cache layout or head counts are out of range";
    }
    if (!within(plan_.vocab_size, 1, kMaxColumns)) {
      return fmt::format("vocab_size {} is out of range", plan_.vocab_size);
    }
    for (const PlanSlot& slot : plan_.slots) {
      if (!within(slot.columns, 1, kMaxColumns)) {
        return fmt::format("a slot has {} columns", slot.columns);
      }
    }
    return check_rotary();
  }

  std::string check_rotary() const {
    const RotaryPlan& rotary = plan_.rotary;
    const size_t half = static_cast<size_t>(rotary.rotary_dim / 2);
    if (!within(rotary.rotary_dim, 0, plan_.kv.head_size) || rotary.rotary_dim % 2 != 0 ||
        rotary.inv_freq.size() != half ||
        (!rotary.long_inv_freq.empty() && rotary.long_inv_freq.size() != half)) {
      return "rotary_dim and the frequency lists disagree";
    }
    if (!std::isfinite(rotary.attention_factor) || rotary.ntk_factor < 0.0f ||
        rotary.threshold < 0 ||
        (rotary.ntk_factor > 0.0f &&
         (rotary.threshold < 1 || !(rotary.ntk_base >= 1.0f) || rotary.rotary_dim < 4))) {
      return "a rotary parameter is out of range";
    }
    return {};
  }

  std::string check_weights() const {
    for (const PlanMatrix& matrix : plan_.matrices) {
      const WeightType& type = matrix.packed.type;
      if (!within(type.rows, 1, kMaxColumns) || !within(type.cols, 1, kMaxColumns) ||
          (type.group_size != 0 && type.group_size != 32 && type.group_size != 64 &&
           type.group_size != 128) ||
          (matrix.packed.order == kernels::RowOrder::kInterleaved && type.rows % 32 != 0)) {
        return "a matrix has a shape or group size out of range";
      }
      const Backend* backend =
          find_backend(plan_.device);  // of another build: it will not run here
      if (backend != nullptr && !(backend->stored_type(type, plan_.activation) == type)) {
        return fmt::format("a matrix is stored as {}, which this device does not take",
                           weight_format_name(type.format));
      }
      if ((backend != nullptr && matrix.bytes != backend->packed_bytes(matrix.packed)) ||
          !(plan_.random_seed >= 0 ? drawn(matrix) : inside(matrix.offset, matrix.bytes, 64))) {
        return fmt::format(
            "matrix at offset {} of {} bytes does not fit its shape or the weights section of {}",
            matrix.offset, matrix.bytes, weights_bytes_);
      }
    }
    for (const PlanVector& vector : plan_.vectors) {
      if (!within(vector.size, 1, kMaxColumns) || !inside(vector.offset, vector.size * 4, 64)) {
        return fmt::format("vector at offset {} of {} elements is outside the weights section",
                           vector.offset, vector.size);
      }
    }
    return {};
  }
  static constexpr int64_t kMaxDrawnBytes = int64_t{1} << 46;
  static bool drawn(const PlanMatrix& matrix) {
    return within(matrix.offset, 0, kMaxDrawnBytes) && matrix.offset % 64 == 0 &&
           within(matrix.bytes, 1, kMaxDrawnBytes);
  }
  bool inside(int64_t offset, int64_t bytes, int64_t alignment) const {
    return offset >= 0 && offset % alignment == 0 && bytes <= weights_bytes_ &&
           offset <= weights_bytes_ - bytes;
  }

  bool is_slot(int32_t slot) const {
    return within(slot, 0, static_cast<int64_t>(plan_.slots.size()) - 1);
  }
  int64_t columns(int32_t slot) const { return plan_.slots[static_cast<size_t>(slot)].columns; }
  bool selected(int32_t slot) const { return plan_.slots[static_cast<size_t>(slot)].selected_rows; }
  bool is_matrix(int32_t index) const {
    return within(index, 0, static_cast<int64_t>(plan_.matrices.size()) - 1);
  }
  const WeightType& type(int32_t matrix) const {
    return plan_.matrices[static_cast<size_t>(matrix)].packed.type;
  }
  bool is_vector(int32_t index, int64_t size) const {
    return within(index, 0, static_cast<int64_t>(plan_.vectors.size()) - 1) &&
           plan_.vectors[static_cast<size_t>(index)].size == size;
  }
  bool is_layer(int32_t layer) const { return within(layer, 0, plan_.kv.num_layers - 1); }
  int64_t qkv_columns() const {
    return int64_t{plan_.num_heads + 2 * plan_.kv.num_kv_heads} * plan_.kv.head_size;
  }
  bool same(int32_t a, int32_t b) const {
    return is_slot(a) && is_slot(b) && columns(a) == columns(b) && selected(a) == selected(b);
  }

  std::string check(const EmbeddingCall& call) const {
    const bool ok = is_matrix(call.matrix) && is_slot(call.y) && !selected(call.y) &&
                    type(call.matrix).rows == plan_.vocab_size &&
                    type(call.matrix).cols == columns(call.y) &&
                    plan_.matrices[static_cast<size_t>(call.matrix)].packed.order ==
                        kernels::RowOrder::kStacked;
    return ok ? "" : "table and output disagree";
  }
  std::string check(const RmsNormCall& call) const {
    const bool ok =
        same(call.x, call.y) && is_vector(call.vector, columns(call.x)) && call.eps >= 0.0f;
    return ok ? "" : "input, output and weight disagree";
  }
  std::string check(const LinearCall& call) const {
    if (!is_matrix(call.matrix) || !is_slot(call.x) || !is_slot(call.y) || call.x == call.y) {
      return "a slot or matrix index is out of range";
    }
    const WeightType& weight = type(call.matrix);
    const bool gated = call.epilogue == kernels::Epilogue::kGatedSilu ||
                       call.epilogue == kernels::Epilogue::kGatedGeluTanh;
    const bool interleaved = plan_.matrices[static_cast<size_t>(call.matrix)].packed.order ==
                             kernels::RowOrder::kInterleaved;
    if (weight.cols != columns(call.x) ||
        columns(call.y) != (gated ? weight.rows / 2 : weight.rows) || gated != interleaved ||
        selected(call.x) != selected(call.y)) {
      return "input, output and weight shapes disagree";
    }
    if (call.epilogue == kernels::Epilogue::kAddResidual && !same(call.residual, call.y)) {
      return "residual and output disagree";
    }
    if (call.bias != -1 && !is_vector(call.bias, weight.rows)) {
      return "bias and weight disagree";
    }
    return {};
  }
  std::string check(const RopeAppendCall& call) const {
    const bool ok = is_layer(call.layer) && is_slot(call.qkv) &&
                    columns(call.qkv) == qkv_columns() && !selected(call.qkv);
    return ok ? "" : "layer or slot is out of range";
  }
  std::string check(const AttentionCall& call) const {
    const bool ok =
        is_layer(call.layer) && is_slot(call.qkv) && is_slot(call.y) && call.qkv != call.y &&
        columns(call.qkv) == qkv_columns() && !selected(call.qkv) && !selected(call.y) &&
        columns(call.y) == int64_t{plan_.num_heads} * plan_.kv.head_size && call.window >= 0 &&
        std::isfinite(call.scale) && std::isfinite(call.soft_cap) && call.soft_cap >= 0.0f;
    return ok ? "" : "layer, slot or shape is out of range";
  }
  std::string check(const AddCall& call) const {
    return same(call.a, call.b) && same(call.a, call.y) ? "" : "shapes disagree";
  }
  std::string check(const GatedCall& call) const {
    return same(call.a, call.b) && same(call.a, call.y) ? "" : "shapes disagree";
  }
  std::string check(const SelectCall& call) const {
    const bool ok = is_slot(call.x) && is_slot(call.y) && columns(call.x) == columns(call.y) &&
                    !selected(call.x) && selected(call.y);
    return ok ? "" : "shapes disagree";
  }

  const EnginePlan& plan_;
  int64_t weights_bytes_;
};

}  // namespace

Result<void> check_plan(const EnginePlan& plan, int64_t weights_bytes) {
  return PlanChecker(plan, weights_bytes).run();
}

}  // namespace zonda::engine
