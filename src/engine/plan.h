// What a build decides and an engine executes: kernel calls over buffer slots and packed weights.
// The one contract between build and runtime; serialised inside rankN.engine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "device/device.h"
#include "kernels/gemm/linear.h"
#include "kernels/rope/rope.h"

namespace zonda::engine {

// Tactics are chosen for ranges of tokens a step: 1, 2-8, 9-16, 17-32, 33-64, 65-256, 257-1024,
// more.
inline constexpr std::array<int64_t, 8> kBucketTokens = {1,  8,   16,   32,
                                                         64, 256, 1024, INT64_MAX};  // last of each
int32_t token_bucket(int64_t num_tokens);

// Limits given at build time; "build_config" of an engine's config.json.
struct BuildLimits {
  int64_t max_batch_size = 0;  // sequences a step
  int64_t max_input_len = 0;   // tokens of a prompt
  int64_t max_seq_len = 0;     // tokens of a sequence, prompt and output
  int64_t max_num_tokens = 0;  // tokens a step
  int32_t max_beam_width = 1;
  int32_t tokens_per_block = 0;
};

// Layout of the paged cache; see kernels::PagedKv.
struct KvLayout {
  DType dtype = DType::kFloat32;
  int32_t num_layers = 0;
  int32_t num_kv_heads = 0;
  int32_t head_size = 0;
  int32_t tokens_per_block = 0;
  // All layers, keys and values of one block.
  int64_t block_bytes() const {
    return int64_t{2} * num_layers * num_kv_heads * head_size * tokens_per_block *
           dtype_size(dtype);
  }
};

// Where rotary frequencies come from; see rotary_frequencies.h.
struct RotaryPlan {
  int32_t rotary_dim = 0;
  bool interleaved = false;
  float attention_factor = 1.0f;
  std::vector<float> inv_freq;  // [rotary_dim / 2]
  // Prompts longer than `threshold` positions use `long_inv_freq` if not empty, else dynamic NTK if
  // ntk_factor > 0.
  int64_t threshold = 0;
  std::vector<float> long_inv_freq;  // [rotary_dim / 2] or empty
  float ntk_base = 0.0f;
  float ntk_factor = 0.0f;
  bool depends_on_length() const { return !long_inv_freq.empty() || ntk_factor > 0.0f; }
};

// A packed matrix in the weights section of the engine file.
struct PlanMatrix {
  std::vector<std::string> sources;  // checkpoint names, in row order
  kernels::PackedType packed;
  int64_t offset = 0;  // bytes from the start of the section, a multiple of the page size
  int64_t bytes = 0;
};

// A float32 vector in the weights section: norm weights and (concatenated) biases.
struct PlanVector {
  std::vector<std::string> sources;
  int64_t size = 0;    // elements
  int64_t offset = 0;  // bytes
};

// A slot of the activation arena: [rows, columns] of the plan's activation dtype (logits are
// float32); values with disjoint lifetimes share one.
struct PlanSlot {
  int64_t columns = 0;
  bool selected_rows = false;  // rows are the tokens whose logits are wanted, not all tokens
};

// Kernel calls. x, y, ...: slots; matrix, vector, bias: indices of the plan's tables, -1 for none.
struct EmbeddingCall {
  int32_t matrix = -1;
  int32_t y = -1;
};
struct RmsNormCall {
  int32_t x = -1;
  int32_t y = -1;
  int32_t vector = -1;
  float eps = 0.0f;
};
struct LinearCall {
  int32_t x = -1;
  int32_t y = -1;
  int32_t residual = -1;
  int32_t matrix = -1;
  int32_t bias = -1;
  kernels::Epilogue epilogue = kernels::Epilogue::kStore;
  std::array<std::string, kBucketTokens.size()> tactics;  // by token_bucket()
};
struct RopeAppendCall {
  int32_t qkv = -1;  // rotated in place
  int32_t layer = 0;
  bool rotate = true;
  bool append = true;
};
struct AttentionCall {
  int32_t qkv = -1;
  int32_t y = -1;
  int32_t layer = 0;
  float scale = 1.0f;
  int32_t window = 0;
  float soft_cap = 0.0f;
};
struct AddCall {
  int32_t a = -1;
  int32_t b = -1;
  int32_t y = -1;
};
struct GatedCall {
  int32_t a = -1;
  int32_t b = -1;
  int32_t y = -1;
  bool gelu_tanh = false;
};
struct SelectCall {
  int32_t x = -1;
  int32_t y = -1;
};
using Call = std::variant<EmbeddingCall, RmsNormCall, LinearCall, RopeAppendCall, AttentionCall,
                          AddCall, GatedCall, SelectCall>;

struct PlanCall {
  std::string name;  // of the graph node: "layers.0.attention.qkv"
  Call call;
};
const char* call_name(const Call& call);  // "linear", ...

struct EnginePlan {
  device::DeviceKind device = device::DeviceKind::kCpu;
  DType activation = DType::kFloat32;  // of slots
  std::string device_fingerprint;  // where the tactics were timed: backend, processor, instruction
                                   // set, threads
  Json pretrained_config;          // the checkpoint's config.json
  std::string
      checkpoint_dir;  // where the weights came from, for the rebuild command of an error message
  // >= 0: the file holds only the vectors; matrices are drawn from this seed at load, and their
  // offsets lie behind the file's weights section.
  int64_t random_seed = -1;
  BuildLimits limits;
  KvLayout kv;
  RotaryPlan rotary;
  int32_t num_heads = 0;
  int64_t vocab_size = 0;
  std::vector<PlanMatrix> matrices;
  std::vector<PlanVector> vectors;
  std::vector<PlanSlot> slots;
  std::vector<PlanCall> calls;
  int32_t logits_slot = -1;  // [selected rows, vocab_size]
};

// Every index, size and range of a plan, so that run() can trust it. weights_bytes: size of the
// weights section. kCorrupt names the call and the broken law.
Result<void> check_plan(const EnginePlan& plan, int64_t weights_bytes);

Json plan_to_json(const EnginePlan& plan);
// check_plan() is still to be called.
Result<EnginePlan> plan_from_json(const Json& json);

}  // namespace zonda::engine
