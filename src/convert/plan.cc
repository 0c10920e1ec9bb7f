// SPDX-License-Identifier: Apache-2.0
#include "convert/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "text/utf8.h"

namespace zonda::convert {
namespace {

using checkpoint::exact_weight_type;
using checkpoint::GgmlType;
using checkpoint::join_exact_types;
using models::WeightKind;
using models::WeightPart;
using models::WeightSpec;

constexpr size_t kMaxListed = 10;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxListed); ++i) {
    text += (i == 0 ? "" : ", ") + text::to_valid_utf8(names[i]);
  }
  if (names.size() > kMaxListed) {
    text += fmt::format(" and {} more", names.size() - kMaxListed);
  }
  return text;
}

WeightFormat float_format(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return WeightFormat::kFloat16;
    case DType::kBFloat16:
      return WeightFormat::kBFloat16;
    default:
      return WeightFormat::kFloat32;
  }
}

std::optional<DType> float_dtype(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return DType::kFloat32;
    case GgmlType::kF16:
      return DType::kFloat16;
    case GgmlType::kBF16:
      return DType::kBFloat16;
    default:
      return std::nullopt;
  }
}

bool all_finite_minima(const std::vector<PlannedPart>& parts, const WeightType& type);

class Planner {
 public:
  Planner(Source& source, const ConvertOptions& options) : source_(source), options_(options) {}

  Result<ConvertPlan> make() {
    plan_.config = source_.config;
    if (Result<void> done = read_options(); !done.ok()) {
      return done.error();
    }
    const std::vector<WeightSpec> specs = source_.architecture->weights(source_.config);
    if (Result<void> done = check_names(specs); !done.ok()) {
      return done.error();
    }
    for (const WeightSpec& spec : specs) {
      if (Result<void> done = add(spec); !done.ok()) {
        return done.error();
      }
    }
    if (Result<void> done = check_excluded(); !done.ok()) {
      return done.error();
    }
    choose_dtype();
    for (PlannedWeight& weight : plan_.weights) {
      choose_type(weight);
    }
    unify_fp8_scales();
    describe_quantization();
    return std::move(plan_);
  }

 private:
  Result<void> read_options() {
    if (options_.dtype != "auto" && options_.dtype != "float32" && options_.dtype != "float16" &&
        options_.dtype != "bfloat16") {
      return invalid_argument("[convert] dtype \"{}\" is none of auto, float32, float16, bfloat16.",
                              options_.dtype);
    }
    if (options_.qformat != "none" && options_.qformat != "int8_wo" &&
        options_.qformat != "int4_wo" && !quantizing_fp8()) {
      return invalid_argument(
          "[convert] qformat \"{}\" is none of none, fp8, fp8_pc_pt, int8_wo, int4_wo.",
          options_.qformat);
    }
    if (quantizing_fp8() && options_.asymmetric) {
      return invalid_argument("[convert] qformat {} has no minima: asymmetric is for integers.",
                              options_.qformat);
    }
    const int32_t group = options_.group_size;
    if (group != 0 && group != 32 && group != 64 && group != 128) {
      return invalid_argument("[convert] group_size {} is none of 0 (per channel), 32, 64, 128.",
                              group);
    }
    return {};
  }

  bool quantizing() const { return options_.qformat != "none"; }
  bool quantizing_fp8() const {
    return options_.qformat == "fp8" || options_.qformat == "fp8_pc_pt";
  }

  // Every part must be there, and nothing else.
  Result<void> check_names(const std::vector<WeightSpec>& specs) {
    std::set<std::string> expected(source_.consumed.begin(), source_.consumed.end());
    std::vector<std::string> missing;
    for (const WeightSpec& spec : specs) {
      for (const WeightPart& part : spec.parts) {
        const std::string& name = source_.part_name(part);
        expected.insert(name);
        if (!source_.has(name)) {
          missing.push_back(name);
        }
      }
    }
    if (!missing.empty()) {
      return not_found("[convert] {} lacks {} tensors of {}: {}.", source_.path, missing.size(),
                       source_.architecture->hf_class, listed(missing));
    }
    std::vector<std::string> extra;
    bool calibrated = false;
    for (const std::string& name : source_.names()) {
      const bool scale = source_.is_fp8_scale(name);
      calibrated = calibrated || (scale && !name.ends_with(".weight_scale"));
      if (!expected.contains(name) && !models::ignorable_tensor(name) && !scale) {
        extra.push_back(name);
      }
    }
    if (calibrated) {
      source_.remarks.push_back(
          "calibrated scales of activations and caches are left out: activations get theirs token "
          "by token");
    }
    std::erase_if(extra, [this](const std::string& name) { return is_tied_copy(name); });
    if (!extra.empty()) {
      return corrupt("[convert] {} has {} tensors that {} does not use: {}.", source_.path,
                     extra.size(), source_.architecture->hf_class, listed(extra));
    }
    return {};
  }

  // Some exporters write the head of a tied model once more.
  bool is_tied_copy(const std::string& name) {
    if (name != "lm_head.weight" || source_.gguf || !source_.config.share_embedding_table) {
      return false;
    }
    const checkpoint::TensorView* table = source_.safetensors.find("model.embed_tokens.weight");
    const checkpoint::TensorView* head = source_.safetensors.find(name);
    const bool same = table != nullptr && table->dtype == head->dtype &&
                      table->shape == head->shape &&
                      std::equal(table->bytes.begin(), table->bytes.end(), head->bytes.begin());
    if (same) {
      source_.remarks.push_back("lm_head.weight equals the tied embedding and is left out");
    }
    return same;
  }

  Result<void> add(const WeightSpec& spec) {
    PlannedWeight weight;
    weight.spec = spec;
    for (const WeightPart& part : spec.parts) {
      Result<SourceTensor> tensor = source_.tensor(source_.part_name(part), part.rows, spec.cols);
      if (!tensor.ok()) {
        return tensor.error();
      }
      weight.parts.push_back({part, *tensor});
    }
    plan_.weights.push_back(std::move(weight));
    return {};
  }

  // A pattern that fits nothing is a spelling mistake.
  Result<void> check_excluded() const {
    for (const std::string& pattern : options_.exclude_modules) {
      const bool used =
          std::any_of(plan_.weights.begin(), plan_.weights.end(), [&](const PlannedWeight& weight) {
            return matches_pattern(pattern, module_of(weight.spec));
          });
      if (!used) {
        return invalid_argument("[convert] exclude_modules \"{}\" fits no module of this model.",
                                pattern);
      }
    }
    return {};
  }

  static std::string_view module_of(const WeightSpec& spec) {
    return std::string_view(spec.name).substr(0, spec.name.rfind('.'));
  }
  bool excluded(const WeightSpec& spec) const {
    return std::any_of(
        options_.exclude_modules.begin(), options_.exclude_modules.end(),
        [&](const std::string& pattern) { return matches_pattern(pattern, module_of(spec)); });
  }

  // The type of matrices that are not quantised.
  void choose_dtype() {
    DType& dtype = plan_.config.dtype;
    if (options_.dtype != "auto") {
      dtype = *parse_dtype(options_.dtype);
      return;
    }
    const bool stated =
        source_.hf_config.contains("torch_dtype") || source_.hf_config.contains("dtype");
    if (stated && !source_.gguf) {
      return;  // what parse_hf_config read
    }
    // The float type of most values, bfloat16 if all are in block formats.
    std::map<DType, int64_t> values;
    for (const PlannedWeight& weight : plan_.weights) {
      for (const PlannedPart& part : weight.parts) {
        const std::optional<DType> found = float_dtype(part.tensor.type);
        if (found && !part.tensor.is_fp8() && weight.spec.kind != WeightKind::kVector) {
          values[*found] += part.tensor.rows * part.tensor.cols;
        }
      }
    }
    const auto most = std::max_element(values.begin(), values.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    dtype = most == values.end() ? DType::kBFloat16 : most->first;
  }

  void choose_type(PlannedWeight& weight) {
    const WeightSpec& spec = weight.spec;
    if (spec.kind == WeightKind::kVector) {
      weight.type = {.format = WeightFormat::kFloat32, .rows = 1, .cols = spec.rows};
      return;
    }
    const std::optional<WeightType> exact = exact_type(weight);
    const bool is_fp8 = exact && exact->format == WeightFormat::kFloat8E4M3;
    weight.type = {
        .format = float_format(plan_.config.dtype), .rows = spec.rows, .cols = spec.cols};
    if (quantizing_fp8()) {
      if (spec.kind == WeightKind::kLinear && !excluded(spec)) {
        weight.type.format = WeightFormat::kFloat8E4M3;
        weight.type.per_tensor = options_.qformat == "fp8";
        if (is_fp8 && exact->per_tensor != weight.type.per_tensor && !kept_scales_) {
          kept_scales_ = true;
          source_.remarks.push_back(fmt::format(
              "the folder's fp8 weights keep their scales, one of each {}, whatever --qformat says",
              exact->per_tensor ? "tensor" : "row"));
        }
        weight.exact = is_fp8;
        weight.type = is_fp8 ? *exact : weight.type;
      }
      return;
    }
    if (quantizing()) {
      if (!excluded(spec)) {
        const bool int4 = options_.qformat == "int4_wo" && spec.kind == WeightKind::kLinear;
        weight.type.format = int4 ? WeightFormat::kInt4 : WeightFormat::kInt8;
        weight.type.group_size = options_.group_size;
        weight.type.has_minimum = options_.asymmetric;
      }
      weight.exact = exact && *exact == weight.type;
      return;
    }
    if (options_.dtype != "auto" || (!source_.gguf && !is_fp8)) {
      return;
    }
    if (exact) {
      weight.type = *exact;
      weight.exact = true;
      return;
    }
    keep_float_type(weight);
  }

  // The type that holds every part without change; nullopt if there is none.
  static std::optional<WeightType> exact_type(const PlannedWeight& weight) {
    if (std::any_of(weight.parts.begin(), weight.parts.end(),
                    [](const PlannedPart& part) { return part.tensor.is_fp8(); })) {
      return exact_fp8_type(weight);
    }
    std::optional<WeightType> joined;
    for (const PlannedPart& part : weight.parts) {
      const std::optional<WeightType> one =
          exact_weight_type(part.tensor.type, part.tensor.rows, part.tensor.cols);
      if (!one) {
        return std::nullopt;
      }
      joined = joined ? join_exact_types(*joined, *one) : *one;
    }
    if (joined && joined->has_minimum && !all_finite_minima(weight.parts, *joined)) {
      return std::nullopt;
    }
    return joined;
  }

  // Scales of tensors become those of their rows where parts disagree.
  static std::optional<WeightType> exact_fp8_type(const PlannedWeight& weight) {
    WeightType type{
        .format = WeightFormat::kFloat8E4M3, .rows = weight.spec.rows, .cols = weight.spec.cols};
    type.per_tensor = true;
    for (const PlannedPart& part : weight.parts) {
      const std::vector<float>& scales = part.tensor.fp8_scales;
      if (scales.empty()) {
        return std::nullopt;
      }
      type.per_tensor = type.per_tensor && scales.size() == 1 &&
                        scales[0] == weight.parts.front().tensor.fp8_scales[0];
    }
    return type;
  }

  // One algorithm names all linears: those that kept one scale take one a row where others have to.
  void unify_fp8_scales() {
    const auto by_row = [](const PlannedWeight& weight) {
      return weight.type.format == WeightFormat::kFloat8E4M3 && !weight.type.per_tensor;
    };
    if (std::any_of(plan_.weights.begin(), plan_.weights.end(), by_row)) {
      for (PlannedWeight& weight : plan_.weights) {
        weight.type.per_tensor = false;
      }
    }
  }

  // F32, F16 and BF16 of a GGUF file stay if all parts agree.
  static void keep_float_type(PlannedWeight& weight) {
    const std::optional<DType> first = float_dtype(weight.parts.front().tensor.type);
    const bool same =
        std::all_of(weight.parts.begin(), weight.parts.end(), [&](const PlannedPart& part) {
          return part.tensor.type == weight.parts.front().tensor.type;
        });
    if (first && same) {
      weight.type.format = float_format(*first);
    } else if (!first || !same) {
      weight.type.format = WeightFormat::kBFloat16;
    }
  }

  // W8A16, W4A16 or an FP8 name if all linears share one type, else MIXED_PRECISION if any is
  // quantised.
  void describe_quantization() {
    models::QuantizationConfig& out = plan_.config.quantization;
    out = {};
    const WeightType* first = nullptr;
    bool same = true;
    bool any = false;
    for (const PlannedWeight& weight : plan_.weights) {
      any = any || is_quantized(weight.type.format);
      if (weight.spec.kind != WeightKind::kLinear) {
        continue;
      }
      first = first == nullptr ? &weight.type : first;
      same = same && weight.type.format == first->format &&
             weight.type.group_size == first->group_size &&
             weight.type.has_minimum == first->has_minimum;
    }
    if (!any) {
      return;
    }
    if (first == nullptr || !same || !is_quantized(first->format)) {
      out.quant_algo = "MIXED_PRECISION";
      return;
    }
    if (first->format == WeightFormat::kFloat8E4M3) {
      out.quant_algo = first->per_tensor ? "FP8" : "FP8_PER_CHANNEL_PER_TOKEN";
      return;
    }
    out.quant_algo = first->format == WeightFormat::kInt8 ? "W8A16" : "W4A16";
    out.group_size = first->group_size;
    out.has_minimum = first->has_minimum;
  }

  Source& source_;
  const ConvertOptions& options_;
  ConvertPlan plan_;
  bool kept_scales_ = false;  // that a remark tells of
};

// Whether the minima that a join implies fit float16: only parts that have none of their own need
// a look at their scales.
bool all_finite_minima(const std::vector<PlannedPart>& parts, const WeightType& type) {
  std::vector<uint8_t> data(static_cast<size_t>(type.cols));
  std::vector<uint16_t> scales(static_cast<size_t>(type.groups()));
  std::vector<uint16_t> minima(scales.size());
  for (const PlannedPart& part : parts) {
    if (part.tensor.type == GgmlType::kQ4_1 || part.tensor.type == GgmlType::kQ5_1) {
      continue;
    }
    for (int64_t row = 0; row < part.tensor.rows; ++row) {
      const Result<void> fits =
          checkpoint::repack_blocks(part.tensor.type, part.tensor.row(row).data(), type,
                                    {data.data(), scales.data(), minima.data()});
      if (!fits.ok()) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  size_t star = std::string_view::npos;  // position after the last star seen
  size_t retry = 0;
  size_t p = 0;
  size_t t = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      retry = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star;
      t = ++retry;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<ptrdiff_t>(p), pattern.end(),
                     [](char c) { return c == '*'; });
}

Result<ConvertPlan> make_plan(Source& source, const ConvertOptions& options) {
  return Planner(source, options).make();
}

}  // namespace zonda::convert
