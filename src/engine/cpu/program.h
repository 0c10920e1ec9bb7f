// A plan on the processors of this machine, over the mapped weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/buffer.h"
#include "device/stream.h"
#include "engine/backend.h"
#include "engine/cpu/kv_storage.h"
#include "engine/rotary_frequencies.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/linear.h"
#include "kernels/sampling/choice.h"

namespace zonda::engine::cpu {

class CpuProgram final : public Program {
 public:
  // `file` and `stream` outlive the program.
  static Result<std::unique_ptr<Program>> load(const EngineFile& file, const EngineOptions& options,
                                               device::Stream& stream);

  int64_t max_num_tokens() const override { return max_tokens_; }
  int32_t num_kv_blocks() const override { return kv_->num_blocks(); }
  int64_t activation_bytes() const override {
    return static_cast<int64_t>(arena_.size() + selected_arena_.size() + workspace_.size());
  }
  Result<StepOutputs> run(const BatchInputs& inputs, const CallTimer& timer) override;
  void copy_block(int32_t source, int32_t destination) override {
    kv_->copy_block(source, destination);
  }

 private:
  using TacticTable = std::array<const kernels::LinearTactic*, kBucketTokens.size()>;

  CpuProgram(const EngineFile& file, device::Stream& stream);

  const EnginePlan& plan() const { return file_.plan; }
  void find_tactics();
  // Buffers for up to max_tokens tokens a step, all but the selected slots.
  Result<void> allocate_activations();
  Result<void> reserve_selected(int64_t rows);
  // Positions, cache slots and attention rows of the step.
  void prepare(const BatchInputs& inputs);
  std::span<const kernels::ChosenToken> choose(std::span<const kernels::TokenChoice> choices,
                                               std::span<const float> logits);
  int64_t rows_of(int32_t slot) const {
    return plan().slots[static_cast<size_t>(slot)].selected_rows
               ? static_cast<int64_t>(selected_.size())
               : static_cast<int64_t>(tokens_.size());
  }
  int64_t columns(int32_t slot) const { return plan().slots[static_cast<size_t>(slot)].columns; }
  float* slot(int32_t index) { return slots_[static_cast<size_t>(index)]; }
  const float* vector(int32_t index) const {
    return index < 0
               ? nullptr
               : reinterpret_cast<const float*>(file_.weights.data() +
                                                plan().vectors[static_cast<size_t>(index)].offset);
  }

  void run(size_t call_index, const EmbeddingCall& call);
  void run(size_t call_index, const RmsNormCall& call);
  void run(size_t call_index, const LinearCall& call);
  void run(size_t call_index, const RopeAppendCall& call);
  void run(size_t call_index, const AttentionCall& call);
  void run(size_t call_index, const AddCall& call);
  void run(size_t call_index, const GatedCall& call);
  void run(size_t call_index, const SelectCall& call);

  const EngineFile& file_;
  device::Stream& stream_;
  RotaryFrequencies rotary_;
  std::vector<TacticTable> tactics_;  // by call index; null entries for other calls
  int64_t max_tokens_ = 0;
  int64_t max_selected_ = 0;
  device::Buffer arena_;
  device::Buffer selected_arena_;
  device::Buffer workspace_;
  std::vector<float*> slots_;
  std::optional<KvStorage> kv_;

  // The step.
  std::span<const int32_t> tokens_;
  std::span<const int32_t> selected_;
  std::vector<int32_t> positions_;       // [tokens]
  std::vector<int64_t> cache_slots_;     // [tokens]
  std::vector<int64_t> no_slots_;        // [tokens] of -1: rotate without appending
  std::vector<int32_t> frequency_sets_;  // [tokens]
  std::vector<kernels::AttentionRow> attention_rows_;
  std::vector<kernels::ChosenToken> chosen_;  // [selected rows]
  kernels::ChoiceScratch scratch_;
};

}  // namespace zonda::engine::cpu
