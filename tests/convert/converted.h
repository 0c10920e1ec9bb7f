// Converts a small model and compares what the checkpoint holds with the source's values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "convert/tiny_model.h"
#include "test_support/temp_folder.h"
#include "zonda/convert.h"

namespace zonda::convert {

using checkpoint::Checkpoint;
using checkpoint::GgmlType;

inline const std::string kQkv = "transformer.layers.0.attention.qkv.weight";
inline const std::string kTable = "transformer.vocab_embedding.weight";

// Converts into temp/out and opens the result.
class Converted {
 public:
  explicit Converted(const ConvertOptions& options) {
    ConvertOptions own = options;
    own.output_dir = temp_.path() + "/out";
    const Result<ConvertReport> done = convert_checkpoint(own);
    EXPECT_TRUE(done.ok()) << done.error().message;
    report = *done;
    checkpoint.emplace(Checkpoint::open(own.output_dir).value());
  }
  std::string file(const std::string& name) const {
    return read_file(temp_.path() + "/out/" + name).value();
  }
  std::vector<float> matrix(const std::string& name) const {
    const WeightView view = checkpoint->weight(name).value();
    std::vector<float> values(static_cast<size_t>(view.type.rows * view.type.cols));
    for (int64_t row = 0; row < view.type.rows; ++row) {
      dequantize_row(view, row, values.data() + row * view.type.cols);
    }
    return values;
  }
  WeightType type(const std::string& name) const { return checkpoint->weight(name).value().type; }

  ConvertReport report;
  std::optional<Checkpoint> checkpoint;

 private:
  TempFolder temp_;
};

// Our name of each weight, with the sources whose rows it holds.
inline std::vector<std::pair<std::string, std::vector<std::string>>> name_table(
    const TinyModel& model) {
  std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {kTable, {"model.embed_tokens.weight"}}, {"transformer.ln_f.weight", {"model.norm.weight"}}};
  for (const std::string i : {"0", "1"}) {
    const std::string ours = "transformer.layers." + i + ".";
    const std::string hf = "model.layers." + i + ".";
    const auto add = [&](const std::string& to, std::vector<std::string> from) {
      for (std::string& name : from) {
        name = hf + name;
      }
      table.emplace_back(ours + to, std::move(from));
    };
    add("input_layernorm.weight", {"input_layernorm.weight"});
    add("post_layernorm.weight", {"post_attention_layernorm.weight"});
    for (const std::string end : {".weight", ".bias"}) {
      if (model.weights.contains(hf + "self_attn.q_proj" + end)) {
        add("attention.qkv" + end,
            {"self_attn.q_proj" + end, "self_attn.k_proj" + end, "self_attn.v_proj" + end});
        add("attention.dense" + end, {"self_attn.o_proj" + end});
      }
    }
    add("mlp.fc.weight", {"mlp.gate_proj.weight"});
    add("mlp.gate.weight", {"mlp.up_proj.weight"});
    add("mlp.proj.weight", {"mlp.down_proj.weight"});
  }
  if (model.weights.contains("lm_head.weight")) {
    table.emplace_back("lm_head.weight", std::vector<std::string>{"lm_head.weight"});
  }
  return table;
}

// Every weight of the checkpoint equals `expected` of the source's values.
inline void expect_values(const TinyModel& model, const Converted& converted,
                          const std::function<float(float)>& expected) {
  std::set<std::string> names;
  for (const auto& [ours, sources] : name_table(model)) {
    std::vector<float> values;
    bool vector = false;
    for (const std::string& source : sources) {
      const Matrix& matrix = model.weights.at(source);
      vector = matrix.cols == 0;
      values.insert(values.end(), matrix.values.begin(), matrix.values.end());
    }
    if (vector) {
      const std::span<const float> found = converted.checkpoint->vector(ours).value();
      EXPECT_EQ(std::vector<float>(found.begin(), found.end()), values) << ours;
    } else {
      for (float& value : values) {
        value = expected(value);
      }
      EXPECT_EQ(converted.matrix(ours), values) << ours;
    }
    names.insert(ours);
  }
  EXPECT_EQ(converted.report.weights, static_cast<int64_t>(names.size()));
}

inline float as_bf16(float value) { return bf16_to_float(float_to_bf16(value)); }
inline float as_f16(float value) { return f16_to_float(float_to_f16(value)); }
inline float as_it_is(float value) { return value; }

inline std::string write_gguf(const TempFolder& temp, const checkpoint::GgufBuilder& builder) {
  const std::string path = temp.path() + "/model.gguf";
  EXPECT_TRUE(write_file(path, builder.build()).ok());
  return path;
}

inline GgmlType f32(const std::string&) { return GgmlType::kF32; }

}  // namespace zonda::convert
