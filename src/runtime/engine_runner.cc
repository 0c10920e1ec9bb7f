// The engine as a ModelRunner.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "runtime/model_runner.h"

namespace zonda::runtime {
namespace {

class EngineRunner final : public ModelRunner {
 public:
  explicit EngineRunner(std::unique_ptr<engine::Engine> engine) : engine_(std::move(engine)) {
    const engine::EnginePlan& plan = engine_->plan();
    limits_.vocab_size = static_cast<int32_t>(plan.vocab_size);
    limits_.max_batch_size = static_cast<int32_t>(plan.limits.max_batch_size);
    limits_.max_num_tokens = static_cast<int32_t>(engine_->max_num_tokens());
    limits_.max_input_len = static_cast<int32_t>(plan.limits.max_input_len);
    limits_.max_seq_len = static_cast<int32_t>(plan.limits.max_seq_len);
    limits_.tokens_per_block = plan.kv.tokens_per_block;
    limits_.num_kv_blocks = engine_->num_kv_blocks();
    limits_.kv_block_bytes = plan.kv.block_bytes();
    limits_.threads = engine_->device().threads;
    limits_.instruction_set = engine_->device().kernels;
  }

  const RunnerLimits& limits() const override { return limits_; }

  uint64_t cache_key(int32_t prompt_length) const override {
    const engine::RotaryPlan& rotary = engine_->plan().rotary;
    if (!rotary.depends_on_length() || prompt_length <= rotary.threshold) {
      return 0;
    }
    return rotary.long_inv_freq.empty() ? static_cast<uint64_t>(prompt_length) : 1;
  }

  void copy_block(int32_t from, int32_t to) override { engine_->copy_block(from, to); }

  Result<engine::StepOutputs> run(const engine::BatchInputs& inputs) override {
    return engine_->run(inputs);
  }

 private:
  std::unique_ptr<engine::Engine> engine_;
  RunnerLimits limits_;
};

}  // namespace

Result<std::unique_ptr<ModelRunner>> load_runner(const std::string& engine_path,
                                                 const ExecutorConfig& config) {
  engine::EngineOptions options;
  options.threads = config.num_threads;
  options.kv_cache_bytes = config.kv_cache_bytes;
  if (config.kv_cache_free_memory_fraction > 0) {
    options.kv_cache_free_fraction = config.kv_cache_free_memory_fraction;
  }
  options.max_num_tokens = config.max_num_tokens;
  options.deterministic = config.deterministic;
  auto engine = engine::Engine::load(engine_path, options);
  if (!engine) {
    return engine.error();
  }
  auto runner = std::make_unique<EngineRunner>(std::move(*engine));
  const RunnerLimits& limits = runner->limits();
  const int64_t blocks = limits.num_kv_blocks;
  log_info("KV cache: {} blocks of {} tokens, {} tokens, {:.1f} MiB.", blocks,
           limits.tokens_per_block, blocks * limits.tokens_per_block,
           static_cast<double>(blocks * limits.kv_block_bytes) / (1 << 20));
  return std::unique_ptr<ModelRunner>(std::move(runner));
}

}  // namespace zonda::runtime
