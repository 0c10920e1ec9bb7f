// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "device/host_memory.h"
#include "engine/engine_file.h"
#include "engine/fingerprint.h"
#include "engine/kv_storage.h"
#include "engine/load.h"
#include "engine/rotary_frequencies.h"
#include "kernels/attention/attention.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/rms_norm.h"

namespace zonda::engine {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

struct Engine::State {
  State(EngineFile engine_file, int32_t num_threads, device::CpuIsa isa)
      : file(std::move(engine_file)),
        pool(num_threads),
        stream(pool, isa),
        rotary(file.plan.rotary) {}

  const EnginePlan& plan() const { return file.plan; }

  // Buffers for up to max_tokens tokens a step, all but the selected slots.
  Result<void> allocate_activations();
  Result<void> reserve_selected(int64_t rows);
  Result<void> check_inputs(const BatchInputs& inputs) const;
  // Positions, cache slots and attention rows of the step.
  void prepare(const BatchInputs& inputs);
  int64_t rows_of(int32_t slot) const {
    return plan().slots[static_cast<size_t>(slot)].selected_rows
               ? static_cast<int64_t>(selected.size())
               : static_cast<int64_t>(tokens.size());
  }
  int64_t columns(int32_t slot) const { return plan().slots[static_cast<size_t>(slot)].columns; }
  float* slot(int32_t index) { return slots[static_cast<size_t>(index)]; }
  const float* vector(int32_t index) const {
    return index < 0 ? nullptr
                     : reinterpret_cast<const float*>(
                           file.weights.data() + plan().vectors[static_cast<size_t>(index)].offset);
  }

  void run(size_t call_index, const EmbeddingCall& call);
  void run(size_t call_index, const RmsNormCall& call);
  void run(size_t call_index, const LinearCall& call);
  void run(size_t call_index, const RopeAppendCall& call);
  void run(size_t call_index, const AttentionCall& call);
  void run(size_t call_index, const AddCall& call);
  void run(size_t call_index, const GatedCall& call);
  void run(size_t call_index, const SelectCall& call);

  EngineFile file;  // the plan's linears name tactics that this instruction set has
  device::ThreadPool pool;
  device::Stream stream;
  RotaryFrequencies rotary;
  std::vector<TacticTable> tactics;  // by call index; empty tables for other calls
  int64_t max_tokens = 0;
  int64_t max_selected = 0;
  device::Buffer arena;
  device::Buffer selected_arena;
  device::Buffer workspace;
  std::vector<float*> slots;
  std::optional<KvStorage> kv;

  // The step.
  std::span<const int32_t> tokens;
  std::span<const int32_t> selected;
  std::vector<int32_t> positions;       // [tokens]
  std::vector<int64_t> cache_slots;     // [tokens]
  std::vector<int64_t> no_slots;        // [tokens] of -1: rotate without appending
  std::vector<int32_t> frequency_sets;  // [tokens]
  std::vector<kernels::AttentionRow> attention_rows;
};

Result<void> Engine::State::allocate_activations() {
  int64_t bytes = 0;
  for (const PlanSlot& slot : plan().slots) {
    bytes += slot.selected_rows ? 0 : aligned(slot.columns * max_tokens * 4);
  }
  Result<device::Buffer> memory = device::Buffer::allocate(static_cast<size_t>(bytes));
  if (!memory.ok()) {
    return over_capacity("[engine] activations of {} tokens need {} bytes: {}", max_tokens, bytes,
                         memory.error().message);
  }
  arena = std::move(*memory);
  slots.assign(plan().slots.size(), nullptr);
  int64_t offset = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!plan().slots[i].selected_rows) {
      slots[i] = reinterpret_cast<float*>(arena.data() + offset);
      offset += aligned(plan().slots[i].columns * max_tokens * 4);
    }
  }
  int64_t scratch = kernels::attention_workspace_bytes(max_tokens, plan().num_heads,
                                                       plan().kv.head_size, pool.size());
  for (const PlanMatrix& matrix : plan().matrices) {
    scratch =
        std::max(scratch, kernels::linear_workspace_bytes(matrix.packed, max_tokens, pool.size()));
  }
  Result<device::Buffer> scratch_memory = device::Buffer::allocate(static_cast<size_t>(scratch));
  if (!scratch_memory.ok()) {
    return scratch_memory.error();
  }
  workspace = std::move(*scratch_memory);
  return {};
}

Result<void> Engine::State::reserve_selected(int64_t rows) {
  if (rows <= max_selected) {
    return {};
  }
  const int64_t target = std::min(std::max(rows, 2 * max_selected), max_tokens);
  int64_t bytes = 0;
  for (const PlanSlot& slot : plan().slots) {
    bytes += slot.selected_rows ? aligned(slot.columns * target * 4) : 0;
  }
  Result<device::Buffer> memory = device::Buffer::allocate(static_cast<size_t>(bytes));
  if (!memory.ok()) {
    return over_capacity("[engine] logits of {} tokens need {} bytes: {}", target, bytes,
                         memory.error().message);
  }
  selected_arena = std::move(*memory);
  max_selected = target;
  int64_t offset = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (plan().slots[i].selected_rows) {
      slots[i] = reinterpret_cast<float*>(selected_arena.data() + offset);
      offset += aligned(plan().slots[i].columns * target * 4);
    }
  }
  return {};
}

Result<void> Engine::State::check_inputs(const BatchInputs& inputs) const {
  const int64_t count = static_cast<int64_t>(inputs.tokens.size());
  if (count < 1 || count > max_tokens) {
    return invalid_argument("[engine] a step has {} tokens; the limit is {}.", count, max_tokens);
  }
  for (const int32_t token : inputs.tokens) {
    if (token < 0 || token >= plan().vocab_size) {
      return invalid_argument("[engine] token id {} is outside the vocabulary of {}.", token,
                              plan().vocab_size);
    }
  }
  int64_t sum = 0;
  for (const SequenceInput& sequence : inputs.sequences) {
    const int64_t end = int64_t{sequence.start_position} + sequence.num_tokens;
    if (sequence.num_tokens < 1 || sequence.start_position < 0 || end > plan().limits.max_seq_len) {
      return invalid_argument("[engine] a sequence covers positions {} to {}; max_seq_len is {}.",
                              sequence.start_position, end, plan().limits.max_seq_len);
    }
    const int64_t blocks = (end + plan().kv.tokens_per_block - 1) / plan().kv.tokens_per_block;
    for (int64_t i = 0; i < blocks; ++i) {
      if (sequence.block_table[i] < 0 || sequence.block_table[i] >= kv->num_blocks()) {
        return invalid_argument(
            "[engine] block {} of a sequence is outside the {} blocks of the cache.",
            sequence.block_table[i], kv->num_blocks());
      }
    }
    sum += sequence.num_tokens;
  }
  if (sum != count) {
    return invalid_argument("[engine] the sequences hold {} tokens, the step {}.", sum, count);
  }
  int64_t previous = -1;
  for (const int32_t row : inputs.logits_rows) {
    if (row <= previous || row >= count) {
      return invalid_argument("[engine] logits row {} is not ascending or not below {}.", row,
                              count);
    }
    previous = row;
  }
  return {};
}

void Engine::State::prepare(const BatchInputs& inputs) {
  tokens = inputs.tokens;
  selected = inputs.logits_rows;
  positions.clear();
  cache_slots.clear();
  no_slots.assign(inputs.tokens.size(), -1);
  frequency_sets.clear();
  attention_rows.clear();
  rotary.begin_step();
  const int32_t block_size = plan().kv.tokens_per_block;
  for (const SequenceInput& sequence : inputs.sequences) {
    const int32_t set = rotary.set_for(sequence.prompt_length);
    attention_rows.push_back({static_cast<int64_t>(positions.size()), sequence.num_tokens,
                              sequence.start_position, sequence.block_table});
    for (int32_t i = 0; i < sequence.num_tokens; ++i) {
      const int32_t position = sequence.start_position + i;
      positions.push_back(position);
      cache_slots.push_back(int64_t{sequence.block_table[position / block_size]} * block_size +
                            position % block_size);
      frequency_sets.push_back(set);
    }
  }
}

void Engine::State::run(size_t, const EmbeddingCall& call) {
  const PlanMatrix& matrix = plan().matrices[static_cast<size_t>(call.matrix)];
  const std::byte* table = file.weights.data() + matrix.offset;
  const int64_t width = columns(call.y);
  float* out = slot(call.y);
  pool.parallel_for(static_cast<int64_t>(tokens.size()), 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      kernels::unpack_row(matrix.packed, table, tokens[static_cast<size_t>(i)], out + i * width);
    }
  });
}

void Engine::State::run(size_t, const RmsNormCall& call) {
  kernels::RmsNormParams params;
  params.x = slot(call.x);
  params.weight = vector(call.vector);
  params.y = slot(call.y);
  params.num_rows = rows_of(call.y);
  params.size = params.x_stride = params.y_stride = columns(call.x);
  params.eps = call.eps;
  kernels::rms_norm(params, stream);
}

void Engine::State::run(size_t call_index, const LinearCall& call) {
  const PlanMatrix& matrix = plan().matrices[static_cast<size_t>(call.matrix)];
  kernels::LinearParams params;
  params.num_tokens = rows_of(call.y);
  if (params.num_tokens == 0) {
    return;
  }
  params.x = slot(call.x);
  params.weights = file.weights.data() + matrix.offset;
  params.bias = vector(call.bias);
  params.residual = call.residual < 0 ? nullptr : slot(call.residual);
  params.y = slot(call.y);
  params.workspace = workspace.data();
  params.x_stride = columns(call.x);
  params.y_stride = columns(call.y);
  params.packed = matrix.packed;
  params.epilogue = call.epilogue;
  tactics[call_index][static_cast<size_t>(token_bucket(params.num_tokens))]->run(params, stream);
}

void Engine::State::run(size_t, const RopeAppendCall& call) {
  const RotaryPlan& rotary_plan = plan().rotary;
  kernels::RopeAppendParams params;
  params.qkv = slot(call.qkv);
  params.positions = positions.data();
  params.slots = call.append ? cache_slots.data() : no_slots.data();
  params.frequency_sets = rotary_plan.depends_on_length() ? frequency_sets.data() : nullptr;
  params.inv_freq = rotary.sets();
  params.attention_factor = rotary_plan.attention_factor;
  params.kv = kv->layer(call.layer);
  params.num_tokens = static_cast<int64_t>(tokens.size());
  params.qkv_stride = columns(call.qkv);
  params.num_heads = plan().num_heads;
  params.rotary_dim = rotary_plan.rotary_dim;
  params.style = !call.rotate              ? kernels::RopeStyle::kNone
                 : rotary_plan.interleaved ? kernels::RopeStyle::kGptj
                                           : kernels::RopeStyle::kNeox;
  kernels::rope_append(params, stream);
}

void Engine::State::run(size_t, const AttentionCall& call) {
  kernels::AttentionParams params;
  params.q = slot(call.qkv);
  params.out = slot(call.y);
  params.rows = attention_rows;
  params.kv = kv->layer(call.layer);
  params.workspace = workspace.data();
  params.q_stride = columns(call.qkv);
  params.out_stride = columns(call.y);
  params.num_heads = plan().num_heads;
  params.scale = call.scale;
  params.window = call.window;
  params.soft_cap = call.soft_cap;
  kernels::attention(params, stream);
}

void Engine::State::run(size_t, const AddCall& call) {
  kernels::add({slot(call.a), slot(call.b), slot(call.y), rows_of(call.y) * columns(call.y)},
               stream);
}

void Engine::State::run(size_t, const GatedCall& call) {
  kernels::gated({slot(call.a), slot(call.b), slot(call.y), rows_of(call.y) * columns(call.y)},
                 call.gelu_tanh ? kernels::Epilogue::kGatedGeluTanh : kernels::Epilogue::kGatedSilu,
                 stream);
}

void Engine::State::run(size_t, const SelectCall& call) {
  const int64_t width = columns(call.x);
  for (size_t i = 0; i < selected.size(); ++i) {
    std::memcpy(slot(call.y) + static_cast<int64_t>(i) * width, slot(call.x) + selected[i] * width,
                static_cast<size_t>(width) * 4);
  }
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::load(const std::string& path,
                                             const EngineOptions& options) {
  Result<EngineFile> file = open_engine_file(path, options.verify_checksums);
  if (!file.ok()) {
    return file.error();
  }
  const int32_t threads = options.threads > 0 ? options.threads : device::available_cpus();
  const device::CpuIsa isa = std::min(device::detect_cpu_isa(), options.max_isa);
  auto state = std::make_unique<State>(std::move(*file), threads, isa);
  Result<std::vector<TacticTable>> tactics =
      resolve_tactics(state->file, state->stream, options.strict_device);
  if (!tactics.ok()) {
    return tactics.error();
  }
  state->tactics = std::move(*tactics);
  const int64_t limit = state->plan().limits.max_num_tokens;
  if (options.max_num_tokens > limit || options.max_num_tokens < 0) {
    return invalid_argument(
        "[engine] max_num_tokens {} is outside 1 to {}, for which the engine was built.",
        options.max_num_tokens, limit);
  }
  state->max_tokens = options.max_num_tokens == 0 ? limit : options.max_num_tokens;
  if (const Result<void> allocated = state->allocate_activations(); !allocated.ok()) {
    return allocated.error();
  }
  const Result<int32_t> blocks = kv_cache_blocks(state->plan(), options);
  if (!blocks.ok()) {
    return blocks.error();
  }
  Result<KvStorage> kv = KvStorage::allocate(state->plan().kv, *blocks);
  if (!kv.ok()) {
    return kv.error();
  }
  state->kv.emplace(std::move(*kv));
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

const EnginePlan& Engine::plan() const { return state_->plan(); }
int64_t Engine::max_num_tokens() const { return state_->max_tokens; }
int32_t Engine::threads() const { return state_->pool.size(); }
device::CpuIsa Engine::isa() const { return state_->stream.isa(); }
int32_t Engine::num_kv_blocks() const { return state_->kv->num_blocks(); }
int64_t Engine::weight_bytes() const { return static_cast<int64_t>(state_->file.weights.size()); }
int64_t Engine::activation_bytes() const {
  return static_cast<int64_t>(state_->arena.size() + state_->selected_arena.size() +
                              state_->workspace.size());
}

Result<std::span<const float>> Engine::run(const BatchInputs& inputs) {
  return run_timed(inputs, nullptr);
}

Result<std::span<const float>> Engine::run_timed(const BatchInputs& inputs,
                                                 const CallTimer& timer) {
  using Clock = std::chrono::steady_clock;
  State& state = *state_;
  if (const Result<void> checked = state.check_inputs(inputs); !checked.ok()) {
    return checked.error();
  }
  if (const Result<void> reserved =
          state.reserve_selected(static_cast<int64_t>(inputs.logits_rows.size()));
      !reserved.ok()) {
    return reserved.error();
  }
  state.prepare(inputs);
  const std::vector<PlanCall>& calls = state.plan().calls;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Clock::time_point start = timer ? Clock::now() : Clock::time_point();
    std::visit([&](const auto& call) { state.run(i, call); }, calls[i].call);
    if (timer) {
      timer(calls[i], std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  const size_t count = inputs.logits_rows.size() * static_cast<size_t>(state.plan().vocab_size);
  return std::span<const float>(count == 0 ? nullptr : state.slot(state.plan().logits_slot), count);
}

void Engine::copy_block(int32_t source, int32_t destination) {
  state_->kv->copy_block(source, destination);
}

}  // namespace zonda::engine
