// A runner without a model: its cache slots keep digests of token histories, logits follow from
// them. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "kernels/sampling/choice.h"
#include "runtime/model_runner.h"

namespace zonda::runtime {

inline uint64_t extend_history(uint64_t history, int32_t token) {
  history = (history ^ (static_cast<uint64_t>(token) + 0x1234567)) * 0x9e3779b97f4a7c15u;
  return history ^ (history >> 31);
}

// The logits that follow a history: pseudo-random, a function of it alone.
inline std::vector<float> fake_logits(uint64_t history, int32_t vocab_size) {
  std::vector<float> logits;
  for (int32_t token = 0; token < vocab_size; ++token) {
    const uint64_t mixed = extend_history(history, token + 7777);
    logits.push_back(static_cast<float>(mixed % 4001) / 500.0f - 4.0f);
  }
  return logits;
}

struct FakeOptions {
  RunnerLimits limits = {
      .vocab_size = 50,
      .max_batch_size = 8,
      .max_num_tokens = 64,
      .max_input_len = 200,
      .max_seq_len = 256,
      .tokens_per_block = 4,
      .num_kv_blocks = 128,
      .kv_block_bytes = 64,
      .threads = 1,
      .instruction_set = "none",
  };
  // Called before a step with its number, 1, 2, ...; may throw or return an error.
  std::function<Result<void>(int)> before_step;
  // Tokens whose logits are not a number.
  int32_t poison_token = -1;
};

class FakeRunner final : public ModelRunner {
 public:
  explicit FakeRunner(const FakeOptions& options)
      : options_(options),
        slots_(
            static_cast<size_t>(options.limits.num_kv_blocks * options.limits.tokens_per_block)) {}

  const RunnerLimits& limits() const override { return options_.limits; }
  uint64_t cache_key(int32_t) const override { return 0; }

  void copy_block(int32_t from, int32_t to) override {
    const int32_t size = options_.limits.tokens_per_block;
    for (int32_t i = 0; i < size; ++i) {
      slot(to * size + i) = slot(from * size + i);
    }
  }

  Result<engine::StepOutputs> run(const engine::BatchInputs& inputs) override {
    ++steps_;
    if (options_.before_step) {
      if (auto ready = options_.before_step(steps_); !ready) {
        return ready.error();
      }
    }
    std::vector<uint64_t> histories;
    std::vector<int32_t> tokens;
    for (const engine::SequenceInput& sequence : inputs.sequences) {
      run_sequence(sequence, inputs.tokens.subspan(histories.size()), histories);
    }
    logits_.clear();
    for (const int32_t row : inputs.logits_rows) {
      auto logits = fake_logits(histories[static_cast<size_t>(row)], options_.limits.vocab_size);
      if (inputs.tokens[static_cast<size_t>(row)] == options_.poison_token) {
        logits[3] = std::numeric_limits<float>::quiet_NaN();
      }
      logits_.insert(logits_.end(), logits.begin(), logits.end());
    }
    engine::StepOutputs outputs;
    outputs.logits = logits_;
    choose(inputs.choices, outputs);
    return outputs;
  }

 private:
  // Logits of rows with a choice are lost, as an engine may lose them.
  void choose(std::span<const kernels::TokenChoice> choices, engine::StepOutputs& outputs) {
    const auto vocab = static_cast<size_t>(options_.limits.vocab_size);
    chosen_.assign(choices.size(), {});
    for (size_t row = 0; row < choices.size(); ++row) {
      if (choices[row].mode != kernels::ChoiceMode::kNone) {
        const std::span<float> logits = std::span(logits_).subspan(row * vocab, vocab);
        chosen_[row] = kernels::choose_token(choices[row], logits, scratch_);
        std::ranges::fill(logits, std::numeric_limits<float>::quiet_NaN());
      }
    }
    outputs.chosen = chosen_;
  }

  uint64_t& slot(int32_t index) { return slots_[static_cast<size_t>(index)]; }

  void run_sequence(const engine::SequenceInput& sequence, std::span<const int32_t> tokens,
                    std::vector<uint64_t>& histories) {
    const int32_t size = options_.limits.tokens_per_block;
    const auto at = [&](int32_t position) {
      return sequence.block_table[position / size] * size + position % size;
    };
    for (int32_t i = 0; i < sequence.num_tokens; ++i) {
      const int32_t position = sequence.start_position + i;
      const uint64_t past = position == 0 ? 0 : slot(at(position - 1));
      slot(at(position)) = extend_history(past, tokens[static_cast<size_t>(i)]);
      histories.push_back(slot(at(position)));
    }
  }

  FakeOptions options_;
  std::vector<uint64_t> slots_;  // [blocks, tokens_per_block]
  std::vector<float> logits_;
  std::vector<kernels::ChosenToken> chosen_;
  kernels::ChoiceScratch scratch_;
  int steps_ = 0;
};

// Greedy tokens that must follow a prompt, without any executor.
inline std::vector<int32_t> greedy_continuation(const std::vector<int32_t>& prompt, int32_t count,
                                                int32_t vocab_size = 50) {
  uint64_t history = 0;
  for (const int32_t token : prompt) {
    history = extend_history(history, token);
  }
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) {
    const auto logits = fake_logits(history, vocab_size);
    tokens.push_back(
        static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    history = extend_history(history, tokens.back());
  }
  return tokens;
}

}  // namespace zonda::runtime
