// A checkpoint folder: config.json and the canonical weights of a model, rank-free and device-free.
// SPDX-License-Identifier: Apache-2.0
//
// A quantised matrix X.weight is described by the entry "X.weight" of the safetensors file's
// __metadata__ ("int4,cols=576,group=32,min"; "int8,cols=576,group=0"), so that each tensor tells
// its own format, and has companions:
//   X.weight                  int8: I8 [rows, cols], with minimum U8 [rows, cols]
//                             int4: U8 [rows, (cols + 1) / 2]
//   X.weights_scaling_factor  F16 [rows, groups]
//   X.per_channel_scale       F16 [rows], instead of the former if a row is one group
//   X.weights_minimum         F16 [rows, groups], with minimum only
//
// An F8_E4M3 matrix needs no description: it has one scale a row or one in all.
//   X.weight                  F8_E4M3 [rows, cols], no NaN
//   X.per_channel_scale       F32 [rows], or
//   X.weights_scaling_factor  F32 [1]
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/weight_format.h"
#include "checkpoint/safetensors.h"

namespace zonda::checkpoint {

// A mapped checkpoint; views stay valid as long as it lives. Move-only; const calls may run at
// once.
class Checkpoint {
 public:
  // Reads config.json and maps every *.safetensors of the folder. kNotFound, kCorrupt,
  // kUnsupported (tensor-parallel checkpoints: "mapping" with a world_size above 1).
  static Result<Checkpoint> open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Json& config() const { return config_; }
  // Every tensor, companions included; sorted.
  std::vector<std::string> names() const { return files_.names(); }
  bool has(std::string_view name) const { return files_.find(name) != nullptr; }
  // kNotFound names folder and tensor. Data is aligned to its dtype.
  Result<TensorView> tensor(std::string_view name) const;
  // A matrix [rows, cols] by the name that ends in ".weight", whatever its format. kCorrupt if
  // description, companions and shapes disagree.
  Result<WeightView> weight(std::string_view name) const;
  // A float32 vector [rows]: a norm's weight or a bias.
  Result<std::span<const float>> vector(std::string_view name) const;
  // The pages of this tensor and its companions stop counting as resident until read again.
  void release(std::string_view name) const;

 private:
  Result<WeightView> quantized_weight(std::string_view name, const TensorView& data) const;
  Result<WeightView> fp8_weight(std::string_view name, const TensorView& data) const;
  // The float16 values of a companion, which must be as `spec` says.
  Result<const uint16_t*> halves(const TensorSpec& spec) const;

  std::string folder_;
  Json config_;
  SafetensorsSet files_;
};

// The tensors that store a matrix `name` ("X.weight") of this type: itself, then its companions.
struct StoredWeight {
  TensorSpec data;
  std::optional<TensorSpec> scales;
  std::optional<TensorSpec> minima;
  std::string description;  // of __metadata__; empty where the dtype tells all
};
StoredWeight stored_weight(std::string_view name, const WeightType& type);

// "int4,cols=576,group=32,min" and back; kCorrupt names what cannot be read.
std::string describe_weight(const WeightType& type);
Result<WeightType> parse_weight_description(std::string_view text, int64_t rows);

// Writes a checkpoint folder that appears only when finish() succeeds. Move-only.
class CheckpointWriter {
 public:
  struct Options {
    bool replace = false;  // an existing folder
  };
  // Declares everything first: matrices by name and type, vectors (float32) by name and length.
  class Plan {
   public:
    void add_weight(std::string_view name, const WeightType& type);
    void add_vector(std::string_view name, int64_t length);
    const std::vector<TensorSpec>& tensors() const { return tensors_; }
    const MetadataMap& metadata() const { return metadata_; }

   private:
    std::vector<TensorSpec> tensors_;
    MetadataMap metadata_;
  };

  static Result<CheckpointWriter> create(const std::string& folder, const Plan& plan,
                                         Options options);

  // Rows [first_row, first_row + view.type.rows) of a matrix; view.type is that of the plan but for
  // its rows. Several threads may write different rows at once.
  Result<void> write_rows(std::string_view name, int64_t first_row, const WeightView& view);
  Result<void> write_weight(std::string_view name, const WeightView& view) {
    return write_rows(name, 0, view);
  }
  Result<void> write_vector(std::string_view name, std::span<const float> values);
  // Where further files (tokenizer, template) may be put before finish().
  const std::string& staging_folder() const { return folder_.path(); }
  uint64_t weight_file_bytes() const { return weights_.file_bytes(); }
  Result<void> finish(const OrderedJson& config);

 private:
  CheckpointWriter(StagedFolder folder, SafetensorsWriter weights)
      : folder_(std::move(folder)), weights_(std::move(weights)) {}
  StagedFolder folder_;
  SafetensorsWriter weights_;
};

}  // namespace zonda::checkpoint
