// Everything a step's kernels read besides weights and activations, in one block of memory that
// reaches the device in one copy. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/cuda/device_memory.h"
#include "device/cuda/stream.h"
#include "engine/engine.h"
#include "engine/rotary_frequencies.h"

namespace zonda::engine::cuda {

// Capacities of a step's arrays; equal shapes have equal addresses, so that a captured graph can be
// replayed with new contents.
struct StepShapeKey {
  int64_t tokens = 0;
  int64_t selected = 0;      // rows whose logits are wanted
  int32_t decoding = 0;      // sequences of one token
  int32_t prefilling = 0;    // sequences of several tokens
  int32_t max_chunk = 1;     // most tokens of a sequence
  int32_t table_blocks = 0;  // columns of the block tables: the longest sequence's blocks
  friend auto operator<=>(const StepShapeKey&, const StepShapeKey&) = default;
};

// Device addresses.
struct SequenceArrays {
  const int32_t* token_begin = nullptr;
  const int32_t* num_tokens = nullptr;
  const int32_t* start_position = nullptr;
  const int32_t* block_tables = nullptr;  // [sequences, table_blocks]
};
struct StepArrays {
  const int32_t* tokens = nullptr;
  const int32_t* positions = nullptr;
  const int64_t* cache_slots = nullptr;
  const int32_t* frequency_sets = nullptr;
  const int32_t* selected = nullptr;
  SequenceArrays decoding;
  SequenceArrays prefilling;
};

class StepInputs {
 public:
  // For steps of up to max_tokens tokens and max_sequences sequences of max_blocks blocks.
  static Result<StepInputs> create(int64_t max_tokens, int64_t max_sequences, int64_t max_blocks);

  // The smallest shape that holds a step.
  static StepShapeKey shape_of(const BatchInputs& inputs, int32_t tokens_per_block);

  // Lays the step out for `shape`, which holds at least the step; what is left over is padding that
  // writes nothing: tokens of id 0 without a cache slot, sequences without tokens. Then starts the
  // copy. The previous step has ended.
  Result<void> upload(const BatchInputs& inputs, const StepShapeKey& shape,
                      int32_t tokens_per_block, RotaryFrequencies& rotary,
                      const device::cuda::Stream& stream);
  const StepArrays& arrays() const { return arrays_; }

 private:
  device::cuda::PinnedBuffer host_;
  device::cuda::DeviceBuffer device_;
  StepArrays arrays_;
};

}  // namespace zonda::engine::cuda
