// One entry an architecture: how its configuration is read, which weights must exist, and its
// graph. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "models/config.h"

namespace zonda::models {

enum class WeightKind : uint8_t {
  kLinear,     // [rows, cols]; what --qformat quantises
  kEmbedding,  // [vocab_size, hidden_size]
  kHead,       // [vocab_size, hidden_size]
  kVector,     // [rows]: norms and biases, float32 in a checkpoint
};

// A source tensor; parts of one weight are concatenated along rows in order.
struct WeightPart {
  std::string hf_name;    // "model.layers.0.self_attn.q_proj.weight"
  std::string gguf_name;  // "blk.0.attn_q.weight"
  int64_t rows = 0;
  // GGUF files of this architecture store q and k with each head's rows interleaved for rope_gptj:
  // rows of a head (a, b halves) come as a0 b0 a1 b1 ...; 0: not permuted, otherwise the number of
  // heads to undo it for.
  int32_t gguf_permuted_heads = 0;
};

struct WeightSpec {
  std::string name;  // checkpoint name with its ending: "transformer.layers.0.attention.qkv.weight"
  WeightKind kind = WeightKind::kLinear;
  int64_t rows = 0;
  int64_t cols = 0;  // 0 for kVector
  std::vector<WeightPart> parts;
};

struct Architecture {
  std::string_view hf_class;   // "LlamaForCausalLM"
  std::string_view gguf_name;  // "llama"
  // From Hugging Face's config.json. kUnsupported names the key that this architecture cannot
  // honour.
  Result<ModelConfig> (*parse_hf_config)(const Json& config);
  // Everything that must exist; a source tensor outside the list, but for ignorable_tensor(), is an
  // error.
  std::vector<WeightSpec> (*weights)(const ModelConfig& config);
  graph::Graph (*build_graph)(const ModelConfig& config);
};

// All architectures this build knows.
std::span<const Architecture> architectures();
// kUnsupported lists the known classes.
Result<const Architecture*> find_architecture(std::string_view hf_class);
Result<const Architecture*> find_gguf_architecture(std::string_view gguf_name);

// Tensors that old exporters write and nothing needs ("...rotary_emb.inv_freq", "rope_freqs.weight"
// is not one).
bool ignorable_tensor(std::string_view hf_name);

}  // namespace zonda::models
