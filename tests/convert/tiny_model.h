// A random Llama of a few thousand parameters as a Hugging Face folder or as a GGUF file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "checkpoint/gguf_blocks.h"
#include "checkpoint/gguf_builder.h"

namespace zonda::convert {

struct Matrix {
  int64_t rows = 0;
  int64_t cols = 0;  // 0: a vector of `rows` values
  std::vector<float> values;

  std::vector<int64_t> shape() const {
    return cols == 0 ? std::vector<int64_t>{rows} : std::vector<int64_t>{rows, cols};
  }
};

// Hidden 64, ffn 96, 4 heads of 16 with 2 for keys and values, 2 layers, vocabulary 50.
struct TinyModel {
  Json config;                                    // config.json
  std::map<std::string, Matrix> weights;          // by Hugging Face's names
  std::map<std::string, std::string> gguf_names;  // the same tensors there
  std::map<std::string, int32_t> permuted_heads;  // GGUF: of q_proj and k_proj
};

struct TinyOptions {
  bool tied = true;
  bool bias = false;  // of attention
  int64_t hidden = 64;
  int64_t ffn = 96;
  float scale = 0.1f;  // of the weights
  uint32_t seed = 1;
};
TinyModel make_tiny_model(const TinyOptions& options = {});

// config.json and model.safetensors; tensors for which `dtype` says so are stored in another type.
void write_hf_folder(const TinyModel& model, const std::string& folder,
                     DType dtype = DType::kFloat32);

// All metadata and tensors. F32, F16 and BF16 tensors hold the model's values; block formats hold
// random blocks, and the model's values become theirs. Vectors are always F32.
checkpoint::GgufBuilder make_gguf(
    TinyModel& model, const std::function<checkpoint::GgmlType(const std::string&)>& type_of);

// Bytes of one row of random blocks with ordinary scales.
std::string random_blocks(checkpoint::GgmlType type, int64_t cols, uint32_t seed);

}  // namespace zonda::convert
