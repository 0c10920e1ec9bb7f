// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/step_inputs.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "device/cuda/cuda_status.h"
#include "engine/cuda/places.h"

namespace zonda::engine::cuda {
namespace {

constexpr auto aligned = aligned_place;

int64_t sequence_bytes(int64_t sequences, int64_t table_blocks) {
  return 3 * aligned(sequences * 4) + aligned(sequences * table_blocks * 4);
}

int64_t step_bytes(const StepShapeKey& shape) {
  return 3 * aligned(shape.tokens * 4) + aligned(shape.tokens * 8) + aligned(shape.selected * 4) +
         sequence_bytes(shape.decoding, shape.table_blocks) +
         sequence_bytes(shape.prefilling, shape.table_blocks);
}

// The host side of a SequenceArrays, filled front to back.
class SequenceWriter {
 public:
  SequenceWriter(Places& places, int64_t sequences, int64_t table_blocks, SequenceArrays& arrays)
      : table_blocks_(table_blocks),
        token_begin_(places.take<int32_t>(sequences, arrays.token_begin)),
        num_tokens_(places.take<int32_t>(sequences, arrays.num_tokens)),
        start_position_(places.take<int32_t>(sequences, arrays.start_position)),
        tables_(places.take<int32_t>(sequences * table_blocks, arrays.block_tables)) {
    std::fill_n(token_begin_, sequences, 0);
    std::fill_n(num_tokens_, sequences, 0);
    std::fill_n(start_position_, sequences, 0);
    std::fill_n(tables_, sequences * table_blocks, 0);
  }

  void add(const SequenceInput& sequence, int32_t token_begin, int32_t tokens_per_block) {
    token_begin_[count_] = token_begin;
    num_tokens_[count_] = sequence.num_tokens;
    start_position_[count_] = sequence.start_position;
    const int64_t end = int64_t{sequence.start_position} + sequence.num_tokens;
    const int64_t blocks = (end + tokens_per_block - 1) / tokens_per_block;
    std::copy_n(sequence.block_table, blocks, tables_ + count_ * table_blocks_);
    ++count_;
  }

 private:
  int64_t table_blocks_;
  int32_t* token_begin_;
  int32_t* num_tokens_;
  int32_t* start_position_;
  int32_t* tables_;
  int64_t count_ = 0;
};

}  // namespace

Result<StepInputs> StepInputs::create(int64_t max_tokens, int64_t max_sequences,
                                      int64_t max_blocks) {
  StepShapeKey largest;
  largest.tokens = max_tokens;
  largest.selected = max_tokens;
  largest.decoding = static_cast<int32_t>(max_sequences);
  largest.prefilling = static_cast<int32_t>(max_sequences);
  largest.table_blocks = static_cast<int32_t>(max_blocks);
  const auto bytes = static_cast<size_t>(step_bytes(largest));
  StepInputs inputs;
  Result<device::cuda::PinnedBuffer> host = device::cuda::PinnedBuffer::allocate(bytes);
  Result<device::cuda::DeviceBuffer> device = device::cuda::DeviceBuffer::allocate(bytes);
  if (!host || !device) {
    return host ? device.error() : host.error();
  }
  inputs.host_ = std::move(*host);
  inputs.device_ = std::move(*device);
  return inputs;
}

StepShapeKey StepInputs::shape_of(const BatchInputs& inputs, int32_t tokens_per_block) {
  StepShapeKey shape;
  shape.tokens = static_cast<int64_t>(inputs.tokens.size());
  shape.selected = static_cast<int64_t>(inputs.logits_rows.size());
  int32_t longest = 0;
  for (const SequenceInput& sequence : inputs.sequences) {
    ++(sequence.num_tokens == 1 ? shape.decoding : shape.prefilling);
    shape.max_chunk = std::max(shape.max_chunk, sequence.num_tokens);
    longest = std::max(longest, sequence.start_position + sequence.num_tokens);
  }
  shape.table_blocks = (longest + tokens_per_block - 1) / tokens_per_block;
  return shape;
}

Result<void> StepInputs::upload(const BatchInputs& inputs, const StepShapeKey& shape,
                                int32_t tokens_per_block, RotaryFrequencies& rotary,
                                const device::cuda::Stream& stream) {
  Places places(host_.data(), device_.data());
  int32_t* tokens = places.take<int32_t>(shape.tokens, arrays_.tokens);
  int32_t* positions = places.take<int32_t>(shape.tokens, arrays_.positions);
  int32_t* sets = places.take<int32_t>(shape.tokens, arrays_.frequency_sets);
  int64_t* slots = places.take<int64_t>(shape.tokens, arrays_.cache_slots);
  int32_t* selected = places.take<int32_t>(shape.selected, arrays_.selected);
  std::fill_n(tokens, shape.tokens, 0);
  std::fill_n(positions, shape.tokens, 0);
  std::fill_n(sets, shape.tokens, 0);
  std::fill_n(slots, shape.tokens, -1);
  std::fill_n(selected, shape.selected, 0);
  std::copy(inputs.tokens.begin(), inputs.tokens.end(), tokens);
  std::copy(inputs.logits_rows.begin(), inputs.logits_rows.end(), selected);
  SequenceWriter decoding(places, shape.decoding, shape.table_blocks, arrays_.decoding);
  SequenceWriter prefilling(places, shape.prefilling, shape.table_blocks, arrays_.prefilling);
  rotary.begin_step();
  int32_t token = 0;
  for (const SequenceInput& sequence : inputs.sequences) {
    (sequence.num_tokens == 1 ? decoding : prefilling).add(sequence, token, tokens_per_block);
    const int32_t set = rotary.set_for(sequence.prompt_length);
    for (int32_t i = 0; i < sequence.num_tokens; ++i, ++token) {
      const int32_t position = sequence.start_position + i;
      positions[token] = position;
      sets[token] = set;
      slots[token] = int64_t{sequence.block_table[position / tokens_per_block]} * tokens_per_block +
                     position % tokens_per_block;
    }
  }
  return device::cuda::check(
      cudaMemcpyAsync(device_.data(), host_.data(), static_cast<size_t>(places.bytes()),
                      cudaMemcpyHostToDevice, stream.handle()),
      "[engine] the copy of a step's inputs");
}

}  // namespace zonda::engine::cuda
