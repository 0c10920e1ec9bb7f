// A plan on a CUDA device: weights resident, decode steps replayed as graphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "device/cuda/device_memory.h"
#include "device/cuda/graph.h"
#include "device/cuda/properties.h"
#include "device/cuda/stream.h"
#include "engine/backend.h"
#include "engine/cuda/step_inputs.h"
#include "engine/cuda/step_timer.h"
#include "engine/cuda/token_chooser.h"
#include "engine/rotary_frequencies.h"
#include "kernels/gemm/cuda/linear.h"
#include "kernels/rope/cuda/rope.h"

namespace zonda::engine::cuda {

class CudaProgram final : public Program {
 public:
  // `file` outlives the program.
  static Result<std::unique_ptr<Program>> load(const EngineFile& file, const EngineOptions& options,
                                               const device::cuda::DeviceProperties& properties);

  int64_t max_num_tokens() const override { return max_tokens_; }
  int32_t num_kv_blocks() const override { return num_kv_blocks_; }
  int64_t activation_bytes() const override;
  Result<StepOutputs> run(const BatchInputs& inputs, const CallTimer& timer) override;
  void copy_block(int32_t source, int32_t destination) override;

 private:
  struct ChosenTactic {
    const kernels::cuda::LinearTactic* tactic = nullptr;
    bool fuses_norm = false;  // computes the norm ahead of the linear
  };
  using TacticTable = std::array<ChosenTactic, kBucketTokens.size()>;

  CudaProgram(const EngineFile& file, const device::cuda::DeviceProperties& properties)
      : file_(file), properties_(properties), rotary_(file.plan.rotary) {}

  const EnginePlan& plan() const { return file_.plan; }
  Result<void> prepare(const EngineOptions& options);
  Result<void> load_weights();
  Result<void> draw_weights();
  Result<void> allocate_activations();
  Result<void> allocate_kv(const EngineOptions& options);
  Result<void> allocate_zeros(device::cuda::DeviceBuffer& buffer, int64_t bytes,
                              std::string_view what);
  // Buffers of the rows whose logits are wanted. Recorded graphs are forgotten when they move.
  Result<void> reserve_selected(int64_t rows);
  void find_tactics(bool deterministic);

  // Those that hold addresses of buffers that are about to move.
  void forget_graphs() {
    graphs_.clear();
    step_timer_.forget();
  }
  // Puts calls [begin, end) of the step on the stream.
  Result<void> issue(const StepShapeKey& shape, size_t begin, size_t end);
  Result<void> issue_timed(const StepShapeKey& shape, const CallTimer& timer);
  Result<void> replay(const StepShapeKey& shape);
  Result<void> upload_frequencies();
  Result<StepOutputs> take_outputs(const BatchInputs& inputs);
  // Starts the copy of the logits of rows without a choice.
  Result<void> copy_logits(const BatchInputs& inputs);

  cudaError_t issue(size_t index, const StepShapeKey& shape, bool dependent);
  using Site = device::cuda::LaunchSite;
  cudaError_t run(size_t index, const StepShapeKey& shape, const EmbeddingCall& call, Site site);
  cudaError_t run(size_t index, const StepShapeKey& shape, const RmsNormCall& call, Site site);
  cudaError_t run(size_t index, const StepShapeKey& shape, const LinearCall& call, Site site);
  cudaError_t run(size_t index, const StepShapeKey& shape, const RopeAppendCall& call, Site site);
  cudaError_t run(size_t index, const StepShapeKey& shape, const AttentionCall& call, Site site);
  cudaError_t run(size_t index, const StepShapeKey& shape, const AddCall& call, Site site);
  cudaError_t run(size_t index, const StepShapeKey& shape, const GatedCall& call, Site site);
  cudaError_t run(size_t index, const StepShapeKey& shape, const SelectCall& call, Site site);

  kernels::cuda::RopeAppendParams rope_params(const StepShapeKey& shape,
                                              const RopeAppendCall& call);
  // The rotary and append that an attention call of a decode step does itself, or null.
  const RopeAppendCall* fused_rope(size_t attention, const StepShapeKey& shape);

  const PlanSlot& plan_slot(int32_t slot) const { return plan().slots[static_cast<size_t>(slot)]; }
  int64_t columns(int32_t slot) const { return plan_slot(slot).columns; }
  int64_t rows_of(int32_t slot, const StepShapeKey& shape) const {
    return plan_slot(slot).selected_rows ? shape.selected : shape.tokens;
  }
  // Bytes of one row of a slot.
  int64_t row_bytes(int32_t slot) const {
    return columns(slot) * (slot == plan().logits_slot ? 4 : dtype_size(plan().activation));
  }
  std::byte* slot(int32_t index) { return slots_[static_cast<size_t>(index)]; }
  const PlanMatrix& matrix(int32_t index) const {
    return plan().matrices[static_cast<size_t>(index)];
  }
  const std::byte* weights(const PlanMatrix& matrix) const {
    return weights_.data() + matrix.offset;
  }
  const float* vector(int32_t index) const;
  kernels::PagedKv kv(int32_t layer);
  ChosenTactic tactic(size_t call, int64_t tokens) const;
  // Whether the norm of this call is left to the linear behind it.
  bool is_fused(size_t norm_call, const StepShapeKey& shape) const;

  const EngineFile& file_;
  device::cuda::DeviceProperties properties_;
  device::cuda::Stream stream_;
  RotaryFrequencies rotary_;
  std::vector<TacticTable> tactics_;    // by call; null entries for calls that are not linears
  std::vector<int32_t> fusable_norm_;   // by linear call: the norm that may be fused, or -1
  std::vector<int32_t> fusing_linear_;  // by norm call: the linear that may fuse it, or -1
  int64_t max_tokens_ = 0;
  int64_t max_selected_ = 0;
  int32_t num_kv_blocks_ = 0;
  device::cuda::DeviceBuffer weights_;
  device::cuda::DeviceBuffer arena_;
  device::cuda::DeviceBuffer selected_arena_;
  device::cuda::DeviceBuffer workspace_;
  device::cuda::DeviceBuffer kv_memory_;
  device::cuda::DeviceBuffer frequencies_;
  device::cuda::DeviceBuffer no_slots_;  // int64 [max_tokens] of -1: rotate without appending
  device::cuda::DeviceBuffer arrivals_;  // of decode_attention
  TokenChooser chooser_;
  device::cuda::PinnedBuffer host_logits_;  // [selected, vocab]
  std::vector<std::byte*> slots_;
  StepInputs inputs_;
  std::map<StepShapeKey, device::cuda::Graph> graphs_;
  StepTimer step_timer_;
};

}  // namespace zonda::engine::cuda
