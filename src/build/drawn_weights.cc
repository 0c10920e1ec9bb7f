// Weights that a device draws at load: an engine of any size from a config.json alone.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "build/weight_source.h"
#include "models/architecture.h"

namespace zonda::build {
namespace {

constexpr int64_t kAlignment = 4096;  // of matrices on the device

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

WeightFormat float_format(DType dtype) {
  return dtype == DType::kFloat16    ? WeightFormat::kFloat16
         : dtype == DType::kBFloat16 ? WeightFormat::kBFloat16
                                     : WeightFormat::kFloat32;
}

WeightType type_of(const models::WeightSpec& spec, const models::ModelConfig& config) {
  WeightType type{float_format(config.dtype), spec.rows, spec.cols, 0, false};
  const models::QuantizationConfig& quantization = config.quantization;
  if (spec.kind == models::WeightKind::kLinear && !quantization.quant_algo.empty()) {
    if (quantization.quant_algo.starts_with("FP8")) {
      type.format = WeightFormat::kFloat8E4M3;
      return type;
    }
    type.format = quantization.quant_algo == "W4A16" ? WeightFormat::kInt4 : WeightFormat::kInt8;
    type.group_size = quantization.group_size;
    type.has_minimum = quantization.has_minimum;
  }
  return type;
}

bool is_norm(const std::string& name) { return name.ends_with("weight"); }

class DrawnWeights final : public WeightSource {
 public:
  DrawnWeights(std::string folder, const models::ModelConfig& config,
               const models::Architecture& architecture, int64_t seed)
      : folder_(std::move(folder)), config_(models::to_checkpoint_json(config)), seed_(seed) {
    for (const models::WeightSpec& spec : architecture.weights(config)) {
      if (spec.kind == models::WeightKind::kVector) {
        vectors_[spec.name] = spec.rows;
      } else {
        types_[spec.name] = type_of(spec, config);
      }
    }
  }

  const std::string& folder() const override { return folder_; }
  const OrderedJson& config() const override { return config_; }
  Result<WeightType> type(std::string_view name) const override { return found(types_, name); }
  Result<int64_t> vector_size(std::string_view name) const override {
    return found(vectors_, name);
  }

  // The file holds the vectors; matrices have places behind them that only the device fills.
  Result<void> write(engine::EnginePlan& plan, const engine::Backend&,
                     engine::EngineFileWriter& writer) const override {
    plan.random_seed = seed_;
    int64_t end = 0;
    for (engine::PlanVector& vector : plan.vectors) {
      const std::vector<float> values(static_cast<size_t>(vector.size),
                                      is_norm(vector.sources[0]) ? 1.0f : 0.0f);
      const Result<int64_t> offset = writer.append(std::as_bytes(std::span(values)));
      if (!offset.ok()) {
        return offset.error();
      }
      vector.offset = *offset;
      end = *offset + vector.size * static_cast<int64_t>(sizeof(float));
    }
    for (engine::PlanMatrix& matrix : plan.matrices) {
      matrix.offset = aligned(end);
      end = matrix.offset + matrix.bytes;
    }
    return {};
  }

 private:
  template <typename T>
  Result<T> found(const std::map<std::string, T, std::less<>>& entries,
                  std::string_view name) const {
    const auto at = entries.find(name);
    if (at == entries.end()) {
      return not_found("[build] the configuration of {} has no weight {}.", folder_, name);
    }
    return at->second;
  }

  std::string folder_;
  OrderedJson config_;
  int64_t seed_;
  std::map<std::string, WeightType, std::less<>> types_;
  std::map<std::string, int64_t, std::less<>> vectors_;
};

Result<models::ModelConfig> read_config(const std::string& folder) {
  const Result<Json> json = parse_json_file(folder + "/config.json");
  if (!json.ok()) {
    return json.error();
  }
  if (!json->is_object() || !json->contains("architectures")) {
    return models::parse_checkpoint_config(*json);
  }
  const Json& names = (*json)["architectures"];
  if (!names.is_array() || names.empty() || !names[0].is_string()) {
    return corrupt("[build] {}/config.json: \"architectures\" is no list of names.", folder);
  }
  const auto architecture = models::find_architecture(names[0].get<std::string>());
  return architecture.ok() ? (*architecture)->parse_hf_config(*json)
                           : Result<models::ModelConfig>(architecture.error());
}

}  // namespace

Result<std::unique_ptr<WeightSource>> draw_weights(const std::string& folder, int64_t seed) {
  const Result<models::ModelConfig> config = read_config(folder);
  if (!config.ok()) {
    return config.error();
  }
  if (config->quantization.quant_algo == "MIXED_PRECISION") {
    return unsupported("[build] random weights need one format; {} says MIXED_PRECISION.", folder);
  }
  const auto architecture = models::find_architecture(config->architecture);
  if (!architecture.ok()) {
    return architecture.error();
  }
  return std::unique_ptr<WeightSource>(
      std::make_unique<DrawnWeights>(folder, *config, **architecture, seed));
}

}  // namespace zonda::build
