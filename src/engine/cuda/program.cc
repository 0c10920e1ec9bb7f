// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/program.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/upload.h"
#include "engine/cuda/graph_shape.h"
#include "engine/fusions.h"
#include "engine/kv_layer.h"
#include "engine/load.h"
#include "kernels/attention/cuda/attention.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/norm/cuda/rms_norm.h"
#include "kernels/rope/cuda/rope.h"

namespace zonda::engine::cuda {
namespace {

using device::cuda::check;
using device::cuda::DeviceBuffer;

constexpr int64_t kAlignment = 256;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

Result<void> allocate(DeviceBuffer& buffer, int64_t bytes, std::string_view what) {
  Result<DeviceBuffer> memory = DeviceBuffer::allocate(static_cast<size_t>(bytes));
  if (!memory.ok()) {
    return over_capacity("[engine] {} need {} bytes: {}", what, bytes, memory.error().message);
  }
  buffer = std::move(*memory);
  return {};
}

}  // namespace

Result<std::unique_ptr<Program>> CudaProgram::load(
    const EngineFile& file, const EngineOptions& options,
    const device::cuda::DeviceProperties& properties) {
  std::unique_ptr<CudaProgram> program(new CudaProgram(file, properties));
  if (const Result<void> prepared = program->prepare(options); !prepared.ok()) {
    return prepared.error();
  }
  return std::unique_ptr<Program>(std::move(program));
}

Result<void> CudaProgram::prepare(const EngineOptions& options) {
  max_tokens_ = options.max_num_tokens == 0 ? plan().limits.max_num_tokens : options.max_num_tokens;
  find_tactics(options.deterministic);
  Result<device::cuda::Stream> stream = device::cuda::Stream::create();
  if (!stream) {
    return stream.error();
  }
  stream_ = std::move(*stream);
  const KvLayout& kv = plan().kv;
  Result<StepInputs> inputs = StepInputs::create(
      max_tokens_, std::min(plan().limits.max_batch_size, max_tokens_),
      (plan().limits.max_seq_len + kv.tokens_per_block - 1) / kv.tokens_per_block);
  if (!inputs) {
    return inputs.error();
  }
  inputs_ = std::move(*inputs);
  if (Result<void> loaded = load_weights(); !loaded.ok()) {
    return loaded;
  }
  if (Result<void> allocated = allocate_activations(); !allocated.ok()) {
    return allocated;
  }
  if (Result<void> reserved = reserve_selected(std::min(plan().limits.max_batch_size, max_tokens_));
      !reserved.ok()) {
    return reserved;
  }
  return allocate_kv(options);
}

Result<void> CudaProgram::load_weights() {
  auto bytes = static_cast<int64_t>(file_.weights.size());
  for (const PlanMatrix& matrix : plan().matrices) {
    bytes = std::max(bytes, matrix.offset + matrix.bytes);
  }
  if (Result<void> done = allocate(weights_, bytes, "weights"); !done.ok()) {
    return done;
  }
  Result<device::cuda::Uploader> uploader = device::cuda::Uploader::create();
  if (!uploader) {
    return uploader.error();
  }
  if (Result<void> done = uploader->upload(file_.weights, weights_.data(), stream_); !done.ok()) {
    return done;
  }
  return plan().random_seed < 0 ? Result<void>{} : draw_weights();
}

Result<void> CudaProgram::draw_weights() {
  constexpr float kDeviation = 0.02f;
  constexpr uint64_t kStride = 0x9e3779b97f4a7c15u;  // far apart seeds for the matrices
  auto seed = static_cast<uint64_t>(plan().random_seed);
  for (const PlanMatrix& matrix : plan().matrices) {
    seed += kStride;
    if (Result<void> done =
            check(kernels::cuda::random_weights(matrix.packed, seed, kDeviation,
                                                weights_.data() + matrix.offset, stream_.handle()),
                  "[engine] random weights");
        !done.ok()) {
      return done;
    }
  }
  return {};
}

Result<void> CudaProgram::allocate_activations() {
  int64_t bytes = 0;
  for (size_t i = 0; i < plan().slots.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    bytes += plan_slot(index).selected_rows ? 0 : aligned(row_bytes(index) * max_tokens_);
  }
  if (Result<void> done = allocate(arena_, bytes, "activations"); !done.ok()) {
    return done;
  }
  slots_.assign(plan().slots.size(), nullptr);
  int64_t offset = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if (!plan_slot(index).selected_rows) {
      slots_[i] = arena_.data() + offset;
      offset += aligned(row_bytes(index) * max_tokens_);
    }
  }
  const auto sequences = std::min(plan().limits.max_batch_size, max_tokens_);
  if (Result<void> done = allocate(no_slots_, max_tokens_ * 8, "cache slots"); !done.ok()) {
    return done;
  }
  if (Result<void> done =
          check(cudaMemsetAsync(no_slots_.data(), 0xff, no_slots_.size(), stream_.handle()),
                "[engine] clearing memory");
      !done.ok()) {
    return done;
  }
  int64_t scratch =
      kernels::cuda::attention_workspace_bytes(static_cast<int32_t>(sequences), plan().num_heads,
                                               plan().kv.num_kv_heads, plan().kv.head_size);
  if (Result<void> done =
          allocate_zeros(arrivals_, sequences * plan().num_heads * 4, "attention's counters");
      !done.ok()) {
    return done;
  }
  for (const PlanMatrix& matrix : plan().matrices) {
    scratch = std::max(scratch, kernels::cuda::linear_workspace_bytes(matrix.packed, max_tokens_));
  }
  return allocate(workspace_, scratch, "kernels' scratch");
}

Result<void> CudaProgram::reserve_selected(int64_t rows) {
  if (rows <= max_selected_) {
    return {};
  }
  const int64_t target = std::min(std::max(rows, 2 * max_selected_), max_tokens_);
  int64_t bytes = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    bytes += plan_slot(index).selected_rows ? aligned(row_bytes(index) * target) : 0;
  }
  forget_graphs();
  if (Result<void> done = allocate(selected_arena_, bytes, "logits"); !done.ok()) {
    return done;
  }
  if (Result<void> done = chooser_.reserve(target, plan().vocab_size, stream_); !done.ok()) {
    return done;
  }
  Result<device::cuda::PinnedBuffer> host = device::cuda::PinnedBuffer::allocate(
      static_cast<size_t>(target * row_bytes(plan().logits_slot)));
  if (!host) {
    return host.error();
  }
  host_logits_ = std::move(*host);
  max_selected_ = target;
  int64_t offset = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if (plan_slot(index).selected_rows) {
      slots_[i] = selected_arena_.data() + offset;
      offset += aligned(row_bytes(index) * target);
    }
  }
  return {};
}

Result<void> CudaProgram::allocate_kv(const EngineOptions& options) {
  const Result<int64_t> free = device::cuda::available_device_memory();
  if (!free) {
    return free.error();
  }
  const Result<int32_t> blocks = kv_cache_blocks(plan(), options, *free);
  if (!blocks) {
    return blocks.error();
  }
  num_kv_blocks_ = *blocks;
  if (Result<void> done =
          allocate(kv_memory_, plan().kv.block_bytes() * num_kv_blocks_, "cache blocks");
      !done.ok()) {
    return done;
  }
  return {};
}

Result<void> CudaProgram::allocate_zeros(DeviceBuffer& buffer, int64_t bytes,
                                         std::string_view what) {
  if (Result<void> done = allocate(buffer, bytes, what); !done.ok()) {
    return done;
  }
  return check(cudaMemsetAsync(buffer.data(), 0, buffer.size(), stream_.handle()),
               "[engine] clearing memory");
}

void CudaProgram::find_tactics(bool deterministic) {
  fusable_norm_ = fusable_norms(plan());
  fusing_linear_.assign(plan().calls.size(), -1);
  tactics_.resize(plan().calls.size());
  for (size_t i = 0; i < tactics_.size(); ++i) {
    if (fusable_norm_[i] >= 0) {
      fusing_linear_[static_cast<size_t>(fusable_norm_[i])] = static_cast<int32_t>(i);
    }
    const auto* linear = std::get_if<LinearCall>(&plan().calls[i].call);
    for (size_t bucket = 0; linear != nullptr && bucket < tactics_[i].size(); ++bucket) {
      std::string_view name = linear->tactics[bucket];
      ChosenTactic& chosen = tactics_[i][bucket];
      if (name.ends_with(kFusedNorm)) {
        name.remove_suffix(kFusedNorm.size());
        chosen.fuses_norm = fusable_norm_[i] >= 0 && !deterministic;
      }
      const auto tactics = kernels::cuda::linear_tactics(matrix(linear->matrix).packed.type,
                                                         properties_.compute_capability);
      const auto found = std::find_if(
          tactics.begin(), tactics.end(), [&](const kernels::cuda::LinearTactic& tactic) {
            return deterministic ? tactic.deterministic && tactic.max_tokens >= max_tokens_
                                 : tactic.name == name;
          });
      chosen.tactic = found == tactics.end() ? nullptr : &*found;
    }
  }
}

CudaProgram::ChosenTactic CudaProgram::tactic(size_t call, int64_t tokens) const {
  const ChosenTactic chosen = tactics_[call][static_cast<size_t>(token_bucket(tokens))];
  if (chosen.tactic != nullptr && tokens >= chosen.tactic->min_tokens &&
      tokens <= chosen.tactic->max_tokens) {
    return chosen;
  }
  const auto& linear = std::get<LinearCall>(plan().calls[call].call);
  return {&kernels::cuda::default_linear_tactic(matrix(linear.matrix).packed.type,
                                                properties_.compute_capability, tokens),
          false};
}

bool CudaProgram::is_fused(size_t norm_call, const StepShapeKey& shape) const {
  const int32_t linear = fusing_linear_[norm_call];
  if (linear < 0) {
    return false;
  }
  const auto& call = std::get<LinearCall>(plan().calls[static_cast<size_t>(linear)].call);
  const int64_t tokens = rows_of(call.y, shape);
  return tokens > 0 && tactic(static_cast<size_t>(linear), tokens).fuses_norm;
}

int64_t CudaProgram::activation_bytes() const {
  return static_cast<int64_t>(arena_.size() + selected_arena_.size() + workspace_.size()) +
         chooser_.device_bytes();
}

const float* CudaProgram::vector(int32_t index) const {
  return index < 0 ? nullptr
                   : reinterpret_cast<const float*>(
                         weights_.data() + plan().vectors[static_cast<size_t>(index)].offset);
}

kernels::PagedKv CudaProgram::kv(int32_t layer) {
  return kv_layer(plan().kv, kv_memory_.data(), layer);
}

void CudaProgram::copy_block(int32_t source, int32_t destination) {
  CHECK(source >= 0 && source < num_kv_blocks_ && destination >= 0 && destination < num_kv_blocks_);
  const int64_t bytes = plan().kv.block_bytes();
  // A fault is reported by the step that follows.
  cudaMemcpyAsync(kv_memory_.data() + destination * bytes, kv_memory_.data() + source * bytes,
                  static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream_.handle());
}

Result<StepOutputs> CudaProgram::run(const BatchInputs& inputs, const CallTimer& timer) {
  if (Result<void> reserved = reserve_selected(static_cast<int64_t>(inputs.logits_rows.size()));
      !reserved.ok()) {
    return reserved.error();
  }
  const int32_t block = plan().kv.tokens_per_block;
  const StepShapeKey step = StepInputs::shape_of(inputs, block);
  const GraphLimits limits{plan().limits.max_batch_size, max_tokens_,
                           static_cast<int32_t>((plan().limits.max_seq_len + block - 1) / block)};
  const std::optional<StepShapeKey> padded = graph_shape(step, limits);
  const StepShapeKey& shape = padded ? *padded : step;
  if (Result<void> done = inputs_.upload(inputs, shape, block, rotary_, stream_); !done.ok()) {
    return done.error();
  }
  if (Result<void> done = upload_frequencies(); !done.ok()) {
    return done.error();
  }
  const Result<void> issued = timer    ? issue_timed(shape, timer)
                              : padded ? replay(shape)
                                       : issue(shape, 0, plan().calls.size());
  if (!issued.ok()) {
    return issued.error();
  }
  return take_outputs(inputs);
}

Result<void> CudaProgram::upload_frequencies() {
  const auto bytes = static_cast<size_t>(rotary_.num_sets()) *
                     static_cast<size_t>(plan().rotary.rotary_dim / 2) * sizeof(float);
  if (bytes == 0 || (frequencies_.size() >= bytes && !plan().rotary.depends_on_length())) {
    return {};
  }
  if (frequencies_.size() < bytes) {
    forget_graphs();
    if (Result<void> done = allocate(frequencies_, static_cast<int64_t>(2 * bytes), "frequencies");
        !done.ok()) {
      return done;
    }
  }
  return check(cudaMemcpyAsync(frequencies_.data(), rotary_.sets(), bytes, cudaMemcpyHostToDevice,
                               stream_.handle()),
               "[engine] the copy of rotary frequencies");
}

Result<void> CudaProgram::issue(const StepShapeKey& shape, size_t begin, size_t end) {
  bool dependent = false;
  for (size_t i = begin; i < end; ++i) {
    const cudaError_t status = issue(i, shape, dependent);
    if (status != cudaSuccess) {
      return check(status, fmt::format("[engine] kernel {}", plan().calls[i].name));
    }
    dependent = properties_.compute_capability >= 90;
  }
  return {};
}

Result<void> CudaProgram::issue_timed(const StepShapeKey& shape, const CallTimer& timer) {
  const size_t count = plan().calls.size();
  const Result<std::vector<double>> times = step_timer_.time(
      shape, count, [&](size_t begin, size_t end) { return issue(shape, begin, end); }, stream_);
  if (!times) {
    return times.error();
  }
  for (size_t i = 0; i < count; ++i) {
    timer(plan().calls[i], (*times)[i]);
  }
  return {};
}

Result<void> CudaProgram::replay(const StepShapeKey& shape) {
  auto found = graphs_.find(shape);
  if (found == graphs_.end()) {
    // Kernels load on their first use, which may not be recorded. Running twice is harmless: a step
    // writes the same values to the same places.
    if (Result<void> done = issue(shape, 0, plan().calls.size()); !done.ok()) {
      return done;
    }
    Result<device::cuda::Graph> graph =
        device::cuda::Graph::capture(stream_, [&] { return issue(shape, 0, plan().calls.size()); });
    if (!graph) {
      return graph.error();
    }
    found = graphs_.emplace(shape, std::move(*graph)).first;
  }
  return found->second.launch(stream_);
}

Result<StepOutputs> CudaProgram::take_outputs(const BatchInputs& inputs) {
  auto* const logits = reinterpret_cast<float*>(slot(plan().logits_slot));
  if (!inputs.choices.empty()) {
    if (Result<void> started = chooser_.start(inputs.choices, logits, stream_); !started.ok()) {
      return started.error();
    }
  }
  if (Result<void> copied = copy_logits(inputs); !copied.ok()) {
    return copied.error();
  }
  if (const Result<void> ended = stream_.synchronize(); !ended.ok()) {
    return ended.error();
  }
  StepOutputs outputs;
  outputs.logits = {host_logits_.as<float>(),
                    inputs.logits_rows.size() * static_cast<size_t>(plan().vocab_size)};
  if (!inputs.choices.empty()) {
    outputs.chosen = chooser_.take();
  }
  return outputs;
}

Result<void> CudaProgram::copy_logits(const BatchInputs& inputs) {
  const size_t rows = inputs.logits_rows.size();
  const auto wanted = [&](size_t row) {
    return inputs.choices.empty() || inputs.choices[row].mode == kernels::ChoiceMode::kNone;
  };
  const size_t bytes = static_cast<size_t>(plan().vocab_size) * sizeof(float);
  for (size_t begin = 0; begin < rows; ++begin) {
    size_t end = begin;
    while (end < rows && wanted(end)) {
      ++end;
    }
    if (end == begin) {
      continue;
    }
    if (Result<void> copied =
            check(cudaMemcpyAsync(host_logits_.data() + begin * bytes,
                                  slot(plan().logits_slot) + begin * bytes, (end - begin) * bytes,
                                  cudaMemcpyDeviceToHost, stream_.handle()),
                  "[engine] the copy of logits");
        !copied.ok()) {
      return copied;
    }
    begin = end;
  }
  return {};
}

}  // namespace zonda::engine::cuda
