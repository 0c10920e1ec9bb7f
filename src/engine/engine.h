// A plan with its weights resident and a paged KV cache: runs one step of a packed batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "device/cpu_features.h"
#include "engine/cost.h"
#include "engine/plan.h"
#include "kernels/probe/probe.h"
#include "kernels/sampling/choice.h"
#include "zonda/error.h"

namespace zonda::engine {

struct EngineOptions {
  int32_t threads = 0;         // 0: all processors this process may use
  int64_t kv_cache_bytes = 0;  // 0: by fraction
  double kv_cache_free_fraction =
      0.9;  // of the memory free after loading; never more than max_batch_size sequences need
  int64_t max_num_tokens = 0;  // 0: the plan's; smaller saves memory
  bool strict_device = false;  // refuse an engine timed on another device instead of timing again
  bool verify_checksums = true;
  // On CUDA: kernels whose results do not depend on the batch. On the CPU all are such.
  bool deterministic = false;
  device::CpuIsa max_isa = device::CpuIsa::kAmx;  // forces lower kernels, for tests
};

// The tokens of one sequence in a step.
struct SequenceInput {
  int32_t num_tokens = 0;                // >= 1
  int32_t start_position = 0;            // position of its first token here
  const int32_t* block_table = nullptr;  // ids for positions [0, start_position + num_tokens)
  int32_t prompt_length =
      0;  // fixes length-dependent rotary frequencies; any value if the plan has none
};

struct BatchInputs {
  std::span<const int32_t> tokens;  // packed, sequence after sequence; each in [0, vocab_size)
  std::span<const SequenceInput> sequences;  // num_tokens add up to tokens.size()
  std::span<const int32_t> logits_rows;  // ascending indices into tokens whose logits are wanted
  // [logits_rows], or empty: no choice at all. Tokens lie in [0, vocab_size), top_logprobs is at
  // most 20.
  std::span<const kernels::TokenChoice> choices = {};
};

// Valid until the next step.
struct StepOutputs {
  // [logits_rows, vocab_size], where rows with a choice may hold anything.
  std::span<const float> logits;
  std::span<const kernels::ChosenToken> chosen =
      {};  // [logits_rows], or empty if there are no choices
};

// What a device says of itself.
struct DeviceFacts {
  std::string fingerprint;  // "cpu; AMD EPYC 9354; avx512-bf16", "cuda; NVIDIA H200; sm_90"
  std::string kernels;      // the instruction set of its kernels: "avx2", "sm_90a"
  int32_t threads = 1;      // host threads that compute
  CostRules cost;
};

// Time of one kernel call of a profiled step.
using CallTimer = std::function<void(const PlanCall& call, double seconds)>;

// Not thread-safe: one step at a time. Results do not depend on the composition of the batch, on
// chunking or threads.
class Engine {
 public:
  // `path`: an engine folder (its rank0.engine) or the engine file. A CPU uses the weights in place
  // from the mapping.
  static Result<std::unique_ptr<Engine>> load(const std::string& path,
                                              const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  const EnginePlan& plan() const;
  const DeviceFacts& device() const;
  int64_t max_num_tokens() const;
  // Blocks of the cache; ids in block tables are [0, num_kv_blocks()).
  int32_t num_kv_blocks() const;
  // Bytes held for weights and for activations.
  int64_t weight_bytes() const;
  int64_t activation_bytes() const;
  // The limits of the device it runs on; about a second of measuring.
  Result<kernels::MachineLimits> measure_limits();

  // Appends keys and values and returns logits or chosen tokens of the rows asked for, valid until
  // the next call. kInvalidArgument if a count, token or position is out of range; the cache is
  // then unchanged.
  Result<StepOutputs> run(const BatchInputs& inputs);
  // The same, and reports the time of each kernel call.
  Result<StepOutputs> run_timed(const BatchInputs& inputs, const CallTimer& timer);

  // Copies all layers of a block (copy-on-write of a shared prefix).
  void copy_block(int32_t source, int32_t destination);

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace zonda::engine
