// A model as typed SSA at the grain of a language model: each node computes one value from values
// and named weights. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace zonda::graph {

using ValueId = int32_t;

// The rows of a value: one for each token of the step, or one for each token whose logits are
// wanted.
enum class RowDomain : uint8_t { kTokens, kSelected };

// float32 [rows of the domain, columns].
struct Value {
  std::string name;
  RowDomain rows = RowDomain::kTokens;
  int64_t columns = 0;
};

// out = table[token id]; no inputs.
struct EmbeddingOp {
  std::string table;  // weight [vocab_size, columns]
};

// out = x / sqrt(mean(x^2) + eps) * weight. Inputs: x.
struct RmsNormOp {
  std::string weight;  // [columns]
  float eps = 0.0f;
};

// One source matrix of a linear; a merged linear has several, by their own names.
struct LinearPart {
  std::string weight;  // [rows, cols]
  std::string bias;    // [rows], or empty
  int64_t rows = 0;
  friend bool operator==(const LinearPart&, const LinearPart&) = default;
};

enum class Activation : uint8_t { kSilu, kGeluTanh };

// What a linear does with its result before it is stored.
enum class LinearEpilogue : uint8_t {
  kStore,        // out = x W^T + b; parts side by side
  kAddResidual,  // out = input 1 + x W^T + b
  kGated,        // two parts of equal rows a, b: out = activation(a) * b
};

// Inputs: x, and with kAddResidual the residual.
struct LinearOp {
  std::vector<LinearPart> parts;
  int64_t cols = 0;
  LinearEpilogue epilogue = LinearEpilogue::kStore;
  Activation activation = Activation::kSilu;  // kGated
};

// Rotates the q and k heads of a merged q, k, v row. Inputs: qkv.
struct RotaryOp {
  int32_t rotary_dim = 0;
  bool interleaved = false;  // pairs (2i, 2i + 1) instead of (i, i + rotary_dim / 2)
};

// Writes the k and v heads of a merged row to the cache of `layer`; the value passes through.
// Inputs: qkv.
struct KvAppendOp {
  int32_t layer = 0;
};

// RotaryOp, then KvAppendOp, in one pass over the row. Inputs: qkv.
struct RopeAppendOp {
  RotaryOp rotary;
  int32_t layer = 0;
};

// Causal attention of the q heads over the cache of `layer`. Inputs: qkv after the append. out:
// [num_heads * head_size].
struct AttentionOp {
  int32_t layer = 0;
  float scale = 1.0f;
  int32_t window = 0;     // > 0: only the last `window` positions are visible
  float soft_cap = 0.0f;  // > 0: cap * tanh(score / cap)
};

// out = a + b. Inputs: a, b.
struct AddOp {};

// out = activation(a) * b. Inputs: a, b.
struct GatedOp {
  Activation activation = Activation::kSilu;
};

// out = rows of x whose logits are wanted. Inputs: x (tokens). Output rows: kSelected.
struct SelectOp {};

using Op = std::variant<EmbeddingOp, RmsNormOp, LinearOp, RotaryOp, KvAppendOp, RopeAppendOp,
                        AttentionOp, AddOp, GatedOp, SelectOp>;

struct Node {
  std::string name;  // "layers.3.attention.qkv"
  Op op;
  std::vector<ValueId> inputs;
  ValueId output = -1;
};

// Head layout of a merged q, k, v row; the same for all layers of a graph.
struct HeadLayout {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_size = 0;
  int64_t qkv_columns() const { return int64_t{num_heads + 2 * num_kv_heads} * head_size; }
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;  // in execution order
  HeadLayout heads;
  int32_t num_layers = 0;
  int64_t vocab_size = 0;
  ValueId logits = -1;  // [selected rows, vocab_size]
};

// "linear", "rms_norm", ...
const char* op_name(const Op& op);
// The node that computes `value`; -1 if none does.
int32_t producer_of(const Graph& graph, ValueId value);
// How many node inputs read `value`; the logits output counts as one more.
int32_t use_count(const Graph& graph, ValueId value);

}  // namespace zonda::graph
