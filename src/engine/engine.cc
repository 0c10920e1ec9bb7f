// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include "base/error.h"
#include "engine/backend.h"
#include "engine/engine_file.h"
#include "engine/load.h"

namespace zonda::engine {

struct Engine::State {
  EngineFile file;  // the plan's linears name tactics that the device has
  std::unique_ptr<OpenDevice> device;
  std::unique_ptr<Program> program;

  const EnginePlan& plan() const { return file.plan; }
  Result<void> check_inputs(const BatchInputs& inputs) const;
};

Result<void> Engine::State::check_inputs(const BatchInputs& inputs) const {
  const int64_t count = static_cast<int64_t>(inputs.tokens.size());
  if (count < 1 || count > program->max_num_tokens()) {
    return invalid_argument("[engine] a step has {} tokens; the limit is {}.", count,
                            program->max_num_tokens());
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
      if (sequence.block_table[i] < 0 || sequence.block_table[i] >= program->num_kv_blocks()) {
        return invalid_argument(
            "[engine] block {} of a sequence is outside the {} blocks of the cache.",
            sequence.block_table[i], program->num_kv_blocks());
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
  if (!inputs.choices.empty() && inputs.choices.size() != inputs.logits_rows.size()) {
    return invalid_argument("[engine] {} choices for {} logits rows.", inputs.choices.size(),
                            inputs.logits_rows.size());
  }
  return {};
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::load(const std::string& path,
                                             const EngineOptions& options) {
  Result<EngineFile> file = open_engine_file(path, options.verify_checksums);
  if (!file.ok()) {
    return file.error();
  }
  const int64_t limit = file->plan.limits.max_num_tokens;
  if (options.max_num_tokens > limit || options.max_num_tokens < 0) {
    return invalid_argument(
        "[engine] max_num_tokens {} is outside 1 to {}, for which the engine was built.",
        options.max_num_tokens, limit);
  }
  const Result<const Backend*> backend = require_backend(file->plan.device);
  if (!backend.ok()) {
    return unsupported("{} Rebuild it: zonda build --checkpoint_dir {} --device cpu",
                       backend.error().message, file->plan.checkpoint_dir);
  }
  auto state = std::make_unique<State>();
  state->file = std::move(*file);
  Result<std::unique_ptr<OpenDevice>> device = (*backend)->open(options);
  if (!device.ok()) {
    return device.error();
  }
  state->device = std::move(*device);
  if (const Result<void> resolved =
          resolve_tactics(state->file, *state->device, options.strict_device);
      !resolved.ok()) {
    return resolved.error();
  }
  Result<std::unique_ptr<Program>> program = state->device->load(state->file, options);
  if (!program.ok()) {
    return program.error();
  }
  state->program = std::move(*program);
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

const EnginePlan& Engine::plan() const { return state_->plan(); }
const DeviceFacts& Engine::device() const { return state_->device->facts(); }
int64_t Engine::max_num_tokens() const { return state_->program->max_num_tokens(); }
int32_t Engine::num_kv_blocks() const { return state_->program->num_kv_blocks(); }
int64_t Engine::weight_bytes() const { return static_cast<int64_t>(state_->file.weights.size()); }
int64_t Engine::activation_bytes() const { return state_->program->activation_bytes(); }
Result<kernels::MachineLimits> Engine::measure_limits() { return state_->device->measure_limits(); }

Result<StepOutputs> Engine::run(const BatchInputs& inputs) { return run_timed(inputs, nullptr); }

Result<StepOutputs> Engine::run_timed(const BatchInputs& inputs, const CallTimer& timer) {
  if (const Result<void> checked = state_->check_inputs(inputs); !checked.ok()) {
    return checked.error();
  }
  return state_->program->run(inputs, timer);
}

void Engine::copy_block(int32_t source, int32_t destination) {
  state_->program->copy_block(source, destination);
}

}  // namespace zonda::engine
