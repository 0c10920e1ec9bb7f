// From a model folder or a GGUF file to a checkpoint folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "zonda/error.h"

namespace zonda::convert {

// After each weight, in no particular order but never two at once.
struct ConvertProgress {
  int64_t weights_done = 0;
  int64_t weights_total = 0;
  int64_t bytes_done = 0;  // of the checkpoint's tensors
  int64_t bytes_total = 0;
  std::string_view weight;  // the one just written; valid during the call
};

struct ConvertOptions {
  // A Hugging Face folder, a .gguf file, or a folder with one .gguf file and no config.json.
  std::string model_dir = {};
  std::string output_dir = {};
  bool replace = false;  // an output folder that exists and is not empty

  // "auto", "float32", "float16", "bfloat16". auto: a Hugging Face folder keeps its torch_dtype; in
  // a GGUF file Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 stay quantised bit-exactly, F32, F16 and BF16 keep
  // their type and the other block formats become bfloat16. F8_E4M3 matrices of a folder keep their
  // codes. Norms and biases are always float32.
  std::string dtype = "auto";
  // "none", or how the linears are quantised. "int8_wo", "int4_wo": weight-only integers; the
  // embedding and the LM head become int8 with the same groups. "fp8": e4m3 with one scale of the
  // tensor, "fp8_pc_pt": with a scale of each row; embedding and LM head keep `dtype`. No
  // calibration: devices that multiply fp8 find the scales of activations token by token. A tensor
  // that has the asked format already is not rounded again; other block formats of a GGUF file are.
  std::string qformat = "none";
  int32_t group_size =
      128;                  // integers: 32, 64 or 128 values of a row share a scale; 0: per channel
  bool asymmetric = false;  // a group also has a minimum
  // Checkpoint names without ".weight" that stay unquantised: "lm_head",
  // "transformer.vocab_embedding", "transformer.layers.0.mlp.fc"; a "*" stands for any characters.
  std::vector<std::string> exclude_modules = {};

  int32_t workers = 0;  // threads; 0: one per core
  std::function<void(const ConvertProgress&)> progress = {};
};

struct ConvertReport {
  std::string architecture;      // "LlamaForCausalLM"
  std::string dtype;             // of unquantised matrices
  std::string quant_algo;        // of config.json; empty: none
  int64_t weights = 0;           // weights of the architecture
  int64_t parameters = 0;        // their elements
  int64_t source_bytes = 0;      // of the tensors read
  int64_t checkpoint_bytes = 0;  // of rank0.safetensors
  double seconds = 0.0;
  std::vector<std::string> files;    // in output_dir, besides config.json and rank0.safetensors
  std::vector<std::string> remarks;  // what a user should know: "no tokenizer: ..."
};

// Writes config.json, rank0.safetensors, and the tokenizer, chat template and generation settings.
// Needs memory for a few rows, never for the model. On failure output_dir does not appear.
// Errors name file, tensor, expected and found.
Result<ConvertReport> convert_checkpoint(const ConvertOptions& options);

}  // namespace zonda::convert
