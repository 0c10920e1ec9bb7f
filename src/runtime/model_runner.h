// What the Executor needs of an engine: one step of a packed batch. Fakes implement it in tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/engine.h"
#include "zonda/error.h"
#include "zonda/executor.h"

namespace zonda::runtime {

struct RunnerLimits {
  int32_t vocab_size = 0;
  int32_t max_batch_size = 0;
  int32_t max_num_tokens = 0;
  int32_t max_input_len = 0;
  int32_t max_seq_len = 0;
  int32_t tokens_per_block = 0;
  int32_t num_kv_blocks = 0;
  int64_t kv_block_bytes = 0;  // all layers of one block
  int32_t threads = 1;
  std::string instruction_set;
};

// Used by one thread at a time.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  virtual const RunnerLimits& limits() const = 0;
  // Prompts of different keys have different keys and values for the same tokens (rotary
  // frequencies that depend on the length), so they share no cache block.
  virtual uint64_t cache_key(int32_t prompt_length) const = 0;
  virtual void copy_block(int32_t from, int32_t to) = 0;
  // As Engine::run.
  virtual Result<engine::StepOutputs> run(const engine::BatchInputs& inputs) = 0;
};

// An engine as a runner. The KV options and num_threads of `config` are obeyed; the KV budget
// (blocks, tokens, bytes) is logged.
Result<std::unique_ptr<ModelRunner>> load_runner(const std::string& engine_path,
                                                 const ExecutorConfig& config);

}  // namespace zonda::runtime
