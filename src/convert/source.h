// Where a model comes from: a Hugging Face folder or a GGUF file, behind one set of questions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/gguf.h"
#include "checkpoint/safetensors.h"
#include "models/architecture.h"

namespace zonda::convert {

// A matrix or a vector of the source, rows as they are stored.
struct SourceTensor {
  // safetensors: F32, F16 or BF16; of no meaning for fp8
  checkpoint::GgmlType type = checkpoint::GgmlType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;  // a vector has one row
  std::span<const std::byte> bytes;
  std::vector<float> fp8_scales;  // F8_E4M3 alone: [1] or [rows]

  bool is_fp8() const { return !fp8_scales.empty(); }
  // fp8: the scale of one stored row.
  float fp8_scale(int64_t index) const {
    return fp8_scales[fp8_scales.size() == 1 ? 0 : static_cast<size_t>(index)];
  }
  // [cols] values of one stored row.
  std::span<const std::byte> row(int64_t index) const {
    const size_t row_bytes = bytes.size() / static_cast<size_t>(rows);
    return bytes.subspan(static_cast<size_t>(index) * row_bytes, row_bytes);
  }
};

// Move-only; tensors stay valid as long as it lives.
struct Source {
  std::string path;  // the folder, or the .gguf file
  std::optional<checkpoint::GgufFile> gguf;
  checkpoint::SafetensorsSet safetensors;  // if not gguf
  const models::Architecture* architecture = nullptr;
  models::ModelConfig config;         // eos_token_ids are the union with generation_config.json
  Json hf_config;                     // as config.json of the folder; made from GGUF's metadata
  std::optional<Json> generation;     // generation_config.json of the folder
  std::vector<std::string> consumed;  // tensors that went into the configuration
  std::vector<std::string> remarks;

  // The name of a part in this source.
  const std::string& part_name(const models::WeightPart& part) const {
    return gguf ? part.gguf_name : part.hf_name;
  }
  bool has(const std::string& name) const;
  std::vector<std::string> names() const;
  // The file that holds a tensor.
  const std::string& file_of(const std::string& name) const;
  // Of the expected shape: [rows, cols], or [rows] if cols is 0. kNotFound, kCorrupt (shape),
  // kUnsupported (dtype). An F8_E4M3 tensor comes with the scales of "X.weight_scale".
  Result<SourceTensor> tensor(const std::string& name, int64_t rows, int64_t cols) const;
  // Whether a tensor goes with fp8 matrices and is no weight: "X.weight_scale" of an F8_E4M3 one,
  // and calibrated scales of activations and caches, which nothing here uses.
  bool is_fp8_scale(std::string_view name) const;
  void release(const std::string& name) const;

 private:
  Result<SourceTensor> fp8_tensor(const std::string& name, int64_t rows, int64_t cols) const;
};

// A folder, a .gguf file, or a folder with one .gguf file and no config.json.
Result<Source> open_source(const std::string& model_dir);

// GGUF metadata as the config.json that Hugging Face would have; tensors that it reads are added to
// `consumed`. kUnsupported names a key that cannot be expressed.
Result<Json> gguf_config(const checkpoint::GgufFile& file, const models::Architecture& architecture,
                         std::vector<std::string>& consumed);

}  // namespace zonda::convert
