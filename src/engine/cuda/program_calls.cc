// The kernels of a CUDA program's calls.
// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/program.h"
#include "kernels/attention/cuda/attention.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/norm/cuda/rms_norm.h"
#include "kernels/rope/cuda/rope.h"

namespace zonda::engine::cuda {

cudaError_t CudaProgram::issue(size_t index, const StepShapeKey& shape, bool dependent) {
  const Site site = stream_.site(dependent);
  return std::visit([&](const auto& call) { return run(index, shape, call, site); },
                    plan().calls[index].call);
}

cudaError_t CudaProgram::run(size_t, const StepShapeKey& shape, const EmbeddingCall& call,
                             Site site) {
  const PlanMatrix& table = matrix(call.matrix);
  kernels::cuda::GatherRowsParams params;
  params.weights = weights(table);
  params.ids = inputs_.arrays().tokens;
  params.y = slot(call.y);
  params.num_tokens = shape.tokens;
  params.y_stride = columns(call.y);
  params.packed = table.packed;
  params.activation = plan().activation;
  return kernels::cuda::gather_rows(params, site);
}

cudaError_t CudaProgram::run(size_t index, const StepShapeKey& shape, const RmsNormCall& call,
                             Site site) {
  kernels::cuda::RmsNormParams params;
  params.num_rows = rows_of(call.y, shape);
  if (params.num_rows == 0 || is_fused(index, shape)) {
    return cudaSuccess;
  }
  params.x = slot(call.x);
  params.weight = vector(call.vector);
  params.y = slot(call.y);
  params.size = params.x_stride = params.y_stride = columns(call.x);
  params.eps = call.eps;
  params.activation = plan().activation;
  return kernels::cuda::rms_norm(params, site);
}

cudaError_t CudaProgram::run(size_t index, const StepShapeKey& shape, const LinearCall& call,
                             Site site) {
  const PlanMatrix& weight = matrix(call.matrix);
  kernels::cuda::LinearParams params;
  params.num_tokens = rows_of(call.y, shape);
  if (params.num_tokens == 0) {
    return cudaSuccess;
  }
  const ChosenTactic chosen = tactic(index, params.num_tokens);
  params.x = slot(call.x);
  if (chosen.fuses_norm) {
    const auto& norm =
        std::get<RmsNormCall>(plan().calls[static_cast<size_t>(fusable_norm_[index])].call);
    params.x = slot(norm.x);
    params.norm_weight = vector(norm.vector);
    params.norm_eps = norm.eps;
  }
  params.weights = weights(weight);
  params.bias = vector(call.bias);
  params.residual = call.residual < 0 ? nullptr : slot(call.residual);
  params.y = slot(call.y);
  params.workspace = workspace_.data();
  params.x_stride = columns(call.x);
  params.y_stride = columns(call.y);
  params.packed = weight.packed;
  params.epilogue = call.epilogue;
  params.activation = plan().activation;
  params.float32_output = call.y == plan().logits_slot;
  return chosen.tactic->run(params, site);
}

kernels::cuda::RopeAppendParams CudaProgram::rope_params(const StepShapeKey& shape,
                                                         const RopeAppendCall& call) {
  const RotaryPlan& rotary = plan().rotary;
  kernels::cuda::RopeAppendParams params;
  params.qkv = slot(call.qkv);
  params.positions = inputs_.arrays().positions;
  params.slots = call.append ? inputs_.arrays().cache_slots : no_slots_.as<int64_t>();
  params.frequency_sets = rotary.depends_on_length() ? inputs_.arrays().frequency_sets : nullptr;
  params.inv_freq = frequencies_.as<float>();
  params.attention_factor = rotary.attention_factor;
  params.kv = kv(call.layer);
  params.num_tokens = shape.tokens;
  params.qkv_stride = columns(call.qkv);
  params.num_heads = plan().num_heads;
  params.rotary_dim = rotary.rotary_dim;
  params.style = !call.rotate         ? kernels::RopeStyle::kNone
                 : rotary.interleaved ? kernels::RopeStyle::kGptj
                                      : kernels::RopeStyle::kNeox;
  params.activation = plan().activation;
  return params;
}

const RopeAppendCall* CudaProgram::fused_rope(size_t attention, const StepShapeKey& shape) {
  if (attention == 0 || attention >= plan().calls.size() || shape.prefilling != 0) {
    return nullptr;
  }
  const auto* call = std::get_if<AttentionCall>(&plan().calls[attention].call);
  const auto* rope = std::get_if<RopeAppendCall>(&plan().calls[attention - 1].call);
  const bool fits = call != nullptr && rope != nullptr && rope->append &&
                    rope->layer == call->layer && rope->qkv == call->qkv &&
                    kernels::cuda::can_fuse(rope_params(shape, *rope));
  return fits ? rope : nullptr;
}

cudaError_t CudaProgram::run(size_t index, const StepShapeKey& shape, const RopeAppendCall& call,
                             Site site) {
  return fused_rope(index + 1, shape) != nullptr
             ? cudaSuccess
             : kernels::cuda::rope_append(rope_params(shape, call), site);
}

cudaError_t CudaProgram::run(size_t index, const StepShapeKey& shape, const AttentionCall& call,
                             Site site) {
  kernels::cuda::AttentionParams params;
  params.q = slot(call.qkv);
  params.out = slot(call.y);
  params.table_stride = shape.table_blocks;
  params.max_kv_length = shape.table_blocks * plan().kv.tokens_per_block;
  params.kv = kv(call.layer);
  params.workspace = workspace_.data();
  params.arrivals = arrivals_.as<uint32_t>();
  params.q_stride = columns(call.qkv);
  params.out_stride = columns(call.y);
  params.num_heads = plan().num_heads;
  params.scale = call.scale;
  params.window = call.window;
  params.soft_cap = call.soft_cap;
  params.activation = plan().activation;
  const auto choose = [&](const SequenceArrays& sequences, int32_t count, int32_t max_tokens) {
    params.token_begin = sequences.token_begin;
    params.num_tokens = sequences.num_tokens;
    params.start_position = sequences.start_position;
    params.block_tables = sequences.block_tables;
    params.num_sequences = count;
    params.max_tokens = max_tokens;
    return count > 0;
  };
  if (choose(inputs_.arrays().decoding, shape.decoding, 1)) {
    const RopeAppendCall* rope = fused_rope(index, shape);
    const cudaError_t decoded = rope != nullptr ? kernels::cuda::fused_decode_attention(
                                                      params, rope_params(shape, *rope), site)
                                                : kernels::cuda::decode_attention(params, site);
    if (decoded != cudaSuccess) {
      return decoded;
    }
  }
  return choose(inputs_.arrays().prefilling, shape.prefilling, shape.max_chunk)
             ? kernels::cuda::prefill_attention(params, site)
             : cudaSuccess;
}

cudaError_t CudaProgram::run(size_t, const StepShapeKey& shape, const AddCall& call, Site site) {
  return kernels::cuda::add({slot(call.a), slot(call.b), slot(call.y),
                             rows_of(call.y, shape) * columns(call.y), plan().activation},
                            site);
}

cudaError_t CudaProgram::run(size_t, const StepShapeKey& shape, const GatedCall& call, Site site) {
  return kernels::cuda::gated(
      {slot(call.a), slot(call.b), slot(call.y), rows_of(call.y, shape) * columns(call.y),
       plan().activation},
      call.gelu_tanh ? kernels::Epilogue::kGatedGeluTanh : kernels::Epilogue::kGatedSilu, site);
}

cudaError_t CudaProgram::run(size_t, const StepShapeKey& shape, const SelectCall& call, Site site) {
  kernels::cuda::SelectRowsParams params;
  params.num_rows = shape.selected;
  if (params.num_rows == 0) {
    return cudaSuccess;
  }
  params.x = slot(call.x);
  params.rows = inputs_.arrays().selected;
  params.y = slot(call.y);
  params.size = params.x_stride = columns(call.x);
  params.activation = plan().activation;
  return kernels::cuda::select_rows(params, site);
}

}  // namespace zonda::engine::cuda
