// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/program.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "device/host_memory.h"
#include "engine/load.h"
#include "kernels/attention/attention.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/rms_norm.h"

namespace zonda::engine::cpu {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

const kernels::LinearTactic* find_tactic(const WeightType& type, device::CpuIsa isa,
                                         std::string_view name) {
  for (const kernels::LinearTactic& tactic : kernels::linear_tactics(type, isa)) {
    if (tactic.name == name) {
      return &tactic;
    }
  }
  return nullptr;
}

}  // namespace

CpuProgram::CpuProgram(const EngineFile& file, device::Stream& stream)
    : file_(file), stream_(stream), rotary_(file.plan.rotary) {}

Result<std::unique_ptr<Program>> CpuProgram::load(const EngineFile& file,
                                                  const EngineOptions& options,
                                                  device::Stream& stream) {
  std::unique_ptr<CpuProgram> program(new CpuProgram(file, stream));
  program->max_tokens_ =
      options.max_num_tokens == 0 ? file.plan.limits.max_num_tokens : options.max_num_tokens;
  program->find_tactics();
  if (const Result<void> allocated = program->allocate_activations(); !allocated.ok()) {
    return allocated.error();
  }
  const Result<int32_t> blocks =
      kv_cache_blocks(file.plan, options, device::available_host_memory());
  if (!blocks.ok()) {
    return blocks.error();
  }
  Result<KvStorage> kv = KvStorage::allocate(file.plan.kv, *blocks);
  if (!kv.ok()) {
    return kv.error();
  }
  program->kv_.emplace(std::move(*kv));
  return std::unique_ptr<Program>(std::move(program));
}

void CpuProgram::find_tactics() {
  tactics_.resize(plan().calls.size());
  for (size_t i = 0; i < tactics_.size(); ++i) {
    tactics_[i].fill(nullptr);
    const auto* linear = std::get_if<LinearCall>(&plan().calls[i].call);
    for (size_t bucket = 0; linear != nullptr && bucket < tactics_[i].size(); ++bucket) {
      const WeightType& type = plan().matrices[static_cast<size_t>(linear->matrix)].packed.type;
      tactics_[i][bucket] = find_tactic(type, stream_.isa(), linear->tactics[bucket]);
    }
  }
}

Result<void> CpuProgram::allocate_activations() {
  int64_t bytes = 0;
  for (const PlanSlot& slot : plan().slots) {
    bytes += slot.selected_rows ? 0 : aligned(slot.columns * max_tokens_ * 4);
  }
  Result<device::Buffer> memory = device::Buffer::allocate(static_cast<size_t>(bytes));
  if (!memory.ok()) {
    return over_capacity("[engine] activations of {} tokens need {} bytes: {}", max_tokens_, bytes,
                         memory.error().message);
  }
  arena_ = std::move(*memory);
  slots_.assign(plan().slots.size(), nullptr);
  int64_t offset = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!plan().slots[i].selected_rows) {
      slots_[i] = reinterpret_cast<float*>(arena_.data() + offset);
      offset += aligned(plan().slots[i].columns * max_tokens_ * 4);
    }
  }
  int64_t scratch = kernels::attention_workspace_bytes(max_tokens_, plan().num_heads,
                                                       plan().kv.head_size, stream_.pool().size());
  for (const PlanMatrix& matrix : plan().matrices) {
    scratch = std::max(scratch, kernels::linear_workspace_bytes(matrix.packed, max_tokens_,
                                                                stream_.pool().size()));
  }
  Result<device::Buffer> scratch_memory = device::Buffer::allocate(static_cast<size_t>(scratch));
  if (!scratch_memory.ok()) {
    return scratch_memory.error();
  }
  workspace_ = std::move(*scratch_memory);
  return {};
}

Result<void> CpuProgram::reserve_selected(int64_t rows) {
  if (rows <= max_selected_) {
    return {};
  }
  const int64_t target = std::min(std::max(rows, 2 * max_selected_), max_tokens_);
  int64_t bytes = 0;
  for (const PlanSlot& slot : plan().slots) {
    bytes += slot.selected_rows ? aligned(slot.columns * target * 4) : 0;
  }
  Result<device::Buffer> memory = device::Buffer::allocate(static_cast<size_t>(bytes));
  if (!memory.ok()) {
    return over_capacity("[engine] logits of {} tokens need {} bytes: {}", target, bytes,
                         memory.error().message);
  }
  selected_arena_ = std::move(*memory);
  max_selected_ = target;
  int64_t offset = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (plan().slots[i].selected_rows) {
      slots_[i] = reinterpret_cast<float*>(selected_arena_.data() + offset);
      offset += aligned(plan().slots[i].columns * target * 4);
    }
  }
  return {};
}

void CpuProgram::prepare(const BatchInputs& inputs) {
  tokens_ = inputs.tokens;
  selected_ = inputs.logits_rows;
  positions_.clear();
  cache_slots_.clear();
  no_slots_.assign(inputs.tokens.size(), -1);
  frequency_sets_.clear();
  attention_rows_.clear();
  rotary_.begin_step();
  const int32_t block_size = plan().kv.tokens_per_block;
  for (const SequenceInput& sequence : inputs.sequences) {
    const int32_t set = rotary_.set_for(sequence.prompt_length);
    attention_rows_.push_back({static_cast<int64_t>(positions_.size()), sequence.num_tokens,
                               sequence.start_position, sequence.block_table});
    for (int32_t i = 0; i < sequence.num_tokens; ++i) {
      const int32_t position = sequence.start_position + i;
      positions_.push_back(position);
      cache_slots_.push_back(int64_t{sequence.block_table[position / block_size]} * block_size +
                             position % block_size);
      frequency_sets_.push_back(set);
    }
  }
}

void CpuProgram::run(size_t, const EmbeddingCall& call) {
  const PlanMatrix& matrix = plan().matrices[static_cast<size_t>(call.matrix)];
  const std::byte* table = file_.weights.data() + matrix.offset;
  const int64_t width = columns(call.y);
  float* out = slot(call.y);
  stream_.pool().parallel_for(
      static_cast<int64_t>(tokens_.size()), 8, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          kernels::unpack_row(matrix.packed, table, tokens_[static_cast<size_t>(i)],
                              out + i * width);
        }
      });
}

void CpuProgram::run(size_t, const RmsNormCall& call) {
  kernels::RmsNormParams params;
  params.x = slot(call.x);
  params.weight = vector(call.vector);
  params.y = slot(call.y);
  params.num_rows = rows_of(call.y);
  params.size = params.x_stride = params.y_stride = columns(call.x);
  params.eps = call.eps;
  kernels::rms_norm(params, stream_);
}

void CpuProgram::run(size_t call_index, const LinearCall& call) {
  const PlanMatrix& matrix = plan().matrices[static_cast<size_t>(call.matrix)];
  kernels::LinearParams params;
  params.num_tokens = rows_of(call.y);
  if (params.num_tokens == 0) {
    return;
  }
  params.x = slot(call.x);
  params.weights = file_.weights.data() + matrix.offset;
  params.bias = vector(call.bias);
  params.residual = call.residual < 0 ? nullptr : slot(call.residual);
  params.y = slot(call.y);
  params.workspace = workspace_.data();
  params.x_stride = columns(call.x);
  params.y_stride = columns(call.y);
  params.packed = matrix.packed;
  params.epilogue = call.epilogue;
  tactics_[call_index][static_cast<size_t>(token_bucket(params.num_tokens))]->run(params, stream_);
}

void CpuProgram::run(size_t, const RopeAppendCall& call) {
  const RotaryPlan& rotary_plan = plan().rotary;
  kernels::RopeAppendParams params;
  params.qkv = slot(call.qkv);
  params.positions = positions_.data();
  params.slots = call.append ? cache_slots_.data() : no_slots_.data();
  params.frequency_sets = rotary_plan.depends_on_length() ? frequency_sets_.data() : nullptr;
  params.inv_freq = rotary_.sets();
  params.attention_factor = rotary_plan.attention_factor;
  params.kv = kv_->layer(call.layer);
  params.num_tokens = static_cast<int64_t>(tokens_.size());
  params.qkv_stride = columns(call.qkv);
  params.num_heads = plan().num_heads;
  params.rotary_dim = rotary_plan.rotary_dim;
  params.style = !call.rotate              ? kernels::RopeStyle::kNone
                 : rotary_plan.interleaved ? kernels::RopeStyle::kGptj
                                           : kernels::RopeStyle::kNeox;
  kernels::rope_append(params, stream_);
}

void CpuProgram::run(size_t, const AttentionCall& call) {
  kernels::AttentionParams params;
  params.q = slot(call.qkv);
  params.out = slot(call.y);
  params.rows = attention_rows_;
  params.kv = kv_->layer(call.layer);
  params.workspace = workspace_.data();
  params.q_stride = columns(call.qkv);
  params.out_stride = columns(call.y);
  params.num_heads = plan().num_heads;
  params.scale = call.scale;
  params.window = call.window;
  params.soft_cap = call.soft_cap;
  kernels::attention(params, stream_);
}

void CpuProgram::run(size_t, const AddCall& call) {
  kernels::add({slot(call.a), slot(call.b), slot(call.y), rows_of(call.y) * columns(call.y)},
               stream_);
}

void CpuProgram::run(size_t, const GatedCall& call) {
  kernels::gated({slot(call.a), slot(call.b), slot(call.y), rows_of(call.y) * columns(call.y)},
                 call.gelu_tanh ? kernels::Epilogue::kGatedGeluTanh : kernels::Epilogue::kGatedSilu,
                 stream_);
}

void CpuProgram::run(size_t, const SelectCall& call) {
  const int64_t width = columns(call.x);
  for (size_t i = 0; i < selected_.size(); ++i) {
    std::memcpy(slot(call.y) + static_cast<int64_t>(i) * width, slot(call.x) + selected_[i] * width,
                static_cast<size_t>(width) * 4);
  }
}

Result<StepOutputs> CpuProgram::run(const BatchInputs& inputs, const CallTimer& timer) {
  using Clock = std::chrono::steady_clock;
  if (const Result<void> reserved =
          reserve_selected(static_cast<int64_t>(inputs.logits_rows.size()));
      !reserved.ok()) {
    return reserved.error();
  }
  prepare(inputs);
  const std::vector<PlanCall>& calls = plan().calls;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Clock::time_point start = timer ? Clock::now() : Clock::time_point();
    std::visit([&](const auto& call) { run(i, call); }, calls[i].call);
    if (timer) {
      timer(calls[i], std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  const size_t count = inputs.logits_rows.size() * static_cast<size_t>(plan().vocab_size);
  StepOutputs outputs;
  outputs.logits = {count == 0 ? nullptr : slot(plan().logits_slot), count};
  if (!inputs.choices.empty()) {
    outputs.chosen = choose(inputs.choices, outputs.logits);
  }
  return outputs;
}

std::span<const kernels::ChosenToken> CpuProgram::choose(
    std::span<const kernels::TokenChoice> choices, std::span<const float> logits) {
  const auto vocab = static_cast<size_t>(plan().vocab_size);
  chosen_.assign(choices.size(), {});
  for (size_t row = 0; row < choices.size(); ++row) {
    if (choices[row].mode != kernels::ChoiceMode::kNone) {
      chosen_[row] = kernels::choose_token(choices[row], logits.subspan(row * vocab, vocab),
                                           scratch_, stream_.isa());
    }
  }
  return chosen_;
}

}  // namespace zonda::engine::cpu
