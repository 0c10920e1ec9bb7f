// SPDX-License-Identifier: Apache-2.0
#include "models/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "base/error.h"

namespace zonda::models {
namespace {

struct ScalingName {
  RopeScaling scaling;
  std::string_view name;
};
// The first name of a kind is the one that is written.
constexpr std::array kScalingNames = {
    ScalingName{RopeScaling::kNone, "default"},      ScalingName{RopeScaling::kNone, "none"},
    ScalingName{RopeScaling::kLinear, "linear"},     ScalingName{RopeScaling::kDynamic, "dynamic"},
    ScalingName{RopeScaling::kYarn, "yarn"},         ScalingName{RopeScaling::kLlama3, "llama3"},
    ScalingName{RopeScaling::kLongrope, "longrope"}, ScalingName{RopeScaling::kLongrope, "su"},
};

Result<RopeScaling> parse_scaling_name(std::string_view name) {
  for (const ScalingName& entry : kScalingNames) {
    if (entry.name == name) {
      return entry.scaling;
    }
  }
  return unsupported(
      "[rope] rope_type \"{}\" is none of default, linear, dynamic, yarn, llama3, longrope.", name);
}

std::string_view scaling_name(RopeScaling scaling) {
  return std::find_if(kScalingNames.begin(), kScalingNames.end(),
                      [&](const ScalingName& entry) { return entry.scaling == scaling; })
      ->name;
}

// 1 / base^(2i / dim), as torch computes it: the exponent in float32.
std::vector<float> plain_frequencies(float base, int32_t dim) {
  std::vector<float> inv_freq(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    inv_freq[i] = 1.0f / std::pow(base, exponent);
  }
  return inv_freq;
}

std::vector<float> llama3_frequencies(const RopeConfig& rope) {
  std::vector<float> inv_freq = plain_frequencies(rope.base, rope.rotary_dim);
  const float old_length = static_cast<float>(rope.original_max_position_embeddings);
  const float low_wavelength = old_length / rope.low_freq_factor;
  const float high_wavelength = old_length / rope.high_freq_factor;
  for (float& freq : inv_freq) {
    const float wavelength = 2.0f * std::numbers::pi_v<float> / freq;
    if (wavelength > low_wavelength) {
      freq /= rope.factor;
    } else if (wavelength >= high_wavelength) {
      const float smooth = (old_length / wavelength - rope.low_freq_factor) /
                           (rope.high_freq_factor - rope.low_freq_factor);
      freq = (1.0f - smooth) * freq / rope.factor + smooth * freq;
    }
  }
  return inv_freq;
}

// The dimension whose wavelength turns `rotations` times over the original length (YaRN, arXiv
// 2309.00071, eq. 17).
double yarn_correction_dim(const RopeConfig& rope, double rotations) {
  const double length = static_cast<double>(rope.original_max_position_embeddings);
  return rope.rotary_dim * std::log(length / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(static_cast<double>(rope.base)));
}

std::vector<float> yarn_frequencies(const RopeConfig& rope) {
  double low = yarn_correction_dim(rope, rope.beta_fast);
  double high = yarn_correction_dim(rope, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotary_dim - 1));
  if (low == high) {
    high += 0.001;  // transformers' guard against a division by zero
  }
  std::vector<float> inv_freq = plain_frequencies(rope.base, rope.rotary_dim);
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const float extrapolation = 1.0f - static_cast<float>(ramp);
    inv_freq[i] = inv_freq[i] / rope.factor * (1.0f - extrapolation) + inv_freq[i] * extrapolation;
  }
  return inv_freq;
}

double yarn_mscale(double scale, double mscale) {
  return scale <= 1.0 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

float yarn_attention_factor(const RopeConfig& rope) {
  if (rope.attention_factor != 0.0f) {
    return rope.attention_factor;
  }
  if (rope.mscale != 0.0f && rope.mscale_all_dim != 0.0f) {
    return static_cast<float>(yarn_mscale(rope.factor, rope.mscale) /
                              yarn_mscale(rope.factor, rope.mscale_all_dim));
  }
  return static_cast<float>(yarn_mscale(rope.factor, 1.0));
}

RopeFrequencies longrope_frequencies(const RopeConfig& rope, int64_t max_position, int64_t length) {
  const bool long_context = length > rope.original_max_position_embeddings;
  const std::vector<float>& factors = long_context ? rope.long_factor : rope.short_factor;
  RopeFrequencies out{plain_frequencies(rope.base, rope.rotary_dim), rope.attention_factor};
  for (size_t i = 0; i < out.inv_freq.size(); ++i) {
    out.inv_freq[i] /= factors[i];
  }
  if (out.attention_factor == 0.0f) {
    const double original = static_cast<double>(rope.original_max_position_embeddings);
    const double scale = rope.factor > 1.0f ? static_cast<double>(rope.factor)
                                            : static_cast<double>(max_position) / original;
    out.attention_factor =
        scale <= 1.0 ? 1.0f
                     : static_cast<float>(std::sqrt(1.0 + std::log(scale) / std::log(original)));
  }
  return out;
}

// Reads the members of a rope_scaling object one by one, so that what nobody read can be refused.
class ScalingReader {
 public:
  ScalingReader(const Json& json, RopeConfig& rope) : json_(json), rope_(rope) {}

  Result<void> read(int64_t max_position) {
    if (!json_.is_object()) {
      return invalid_argument("[rope] rope_scaling is not an object.");
    }
    const char* type_key = json_.contains("rope_type") ? "rope_type" : "type";
    seen_.push_back("rope_type");
    seen_.push_back("type");
    std::string type = "default";
    if (json_.contains(type_key)) {
      if (!json_[type_key].is_string()) {
        return invalid_argument("[rope] {} is not a string.", type_key);
      }
      type = json_[type_key].get<std::string>();
    }
    Result<RopeScaling> scaling = parse_scaling_name(type);
    if (!scaling.ok()) {
      return scaling.error();
    }
    rope_.scaling = *scaling;
    number("rope_theta", rope_.base, 1.0);
    float fraction = -1.0f;
    number("partial_rotary_factor", fraction, 0.0);
    if (fraction >= 0.0f && fraction != 1.0f) {
      return unsupported("[rope] partial_rotary_factor {} other than 1.", fraction);
    }
    read_kind(max_position);
    return finish();
  }

 private:
  void read_kind(int64_t max_position) {
    const bool scaled = rope_.scaling != RopeScaling::kNone;
    if (scaled) {
      const bool required = rope_.scaling != RopeScaling::kLongrope;
      number("factor", rope_.factor, required ? 1.0 : 0.0, required);
    } else {
      seen_.push_back("factor");
    }
    const bool has_original = json_.contains("original_max_position_embeddings");
    float original = static_cast<float>(max_position);
    number("original_max_position_embeddings", original, 1.0,
           rope_.scaling == RopeScaling::kLlama3);
    // A dynamic or linear kind without its own length refers to max_position_embeddings.
    rope_.original_max_position_embeddings =
        has_original && fault_.empty() &&
                json_["original_max_position_embeddings"].is_number_integer()
            ? json_["original_max_position_embeddings"].get<int64_t>()
            : max_position;
    switch (rope_.scaling) {
      case RopeScaling::kLlama3:
        number("low_freq_factor", rope_.low_freq_factor, 0.0, true);
        number("high_freq_factor", rope_.high_freq_factor, 0.0, true);
        if (fault_.empty() && rope_.high_freq_factor <= rope_.low_freq_factor) {
          fault_ = fmt::format("high_freq_factor {} is not above low_freq_factor {}",
                               rope_.high_freq_factor, rope_.low_freq_factor);
        }
        break;
      case RopeScaling::kYarn:
        number("attention_factor", rope_.attention_factor, 0.0);
        number("beta_fast", rope_.beta_fast, 0.0);
        number("beta_slow", rope_.beta_slow, 0.0);
        number("mscale", rope_.mscale, 0.0);
        number("mscale_all_dim", rope_.mscale_all_dim, 0.0);
        flag("truncate", rope_.truncate);
        break;
      case RopeScaling::kLongrope:
        number("attention_factor", rope_.attention_factor, 0.0);
        factors("short_factor", rope_.short_factor);
        factors("long_factor", rope_.long_factor);
        break;
      case RopeScaling::kNone:
      case RopeScaling::kLinear:
      case RopeScaling::kDynamic:
        break;
    }
  }

  void number(const char* key, float& out, double least, bool required = false) {
    seen_.push_back(key);
    if (!fault_.empty()) {
      return;
    }
    if (!json_.contains(key) || json_[key].is_null()) {
      fault_ = required ? fmt::format("key {} is missing for rope_type \"{}\"", key,
                                      scaling_name(rope_.scaling))
                        : std::string();
      return;
    }
    const Json& value = json_[key];
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < least) {
      fault_ = fmt::format("{} is {}, which is not a number of at least {}", key, dump_json(value),
                           least);
      return;
    }
    out = value.get<float>();
  }

  void flag(const char* key, bool& out) {
    seen_.push_back(key);
    if (!fault_.empty() || !json_.contains(key) || json_[key].is_null()) {
      return;
    }
    if (!json_[key].is_boolean()) {
      fault_ = fmt::format("{} is not true or false", key);
      return;
    }
    out = json_[key].get<bool>();
  }

  void factors(const char* key, std::vector<float>& out) {
    seen_.push_back(key);
    if (!fault_.empty()) {
      return;
    }
    const size_t expected = static_cast<size_t>(rope_.rotary_dim / 2);
    if (!json_.contains(key) || !json_[key].is_array() || json_[key].size() != expected) {
      fault_ = fmt::format("{} must be a list of {} numbers", key, expected);
      return;
    }
    out.clear();
    for (const Json& value : json_[key]) {
      if (!value.is_number() || !(value.get<double>() > 0.0)) {
        fault_ = fmt::format("{} holds {}, which is not a positive number", key, dump_json(value));
        return;
      }
      out.push_back(value.get<float>());
    }
  }

  Result<void> finish() const {
    if (!fault_.empty()) {
      return invalid_argument("[rope] {}.", fault_);
    }
    for (const auto& [key, value] : json_.items()) {
      if (std::find(seen_.begin(), seen_.end(), key) == seen_.end()) {
        return unsupported("[rope] key \"{}\" of rope_scaling is unknown for rope_type \"{}\".",
                           key, scaling_name(rope_.scaling));
      }
    }
    return {};
  }

  const Json& json_;
  RopeConfig& rope_;
  std::vector<std::string> seen_;
  std::string fault_;
};

}  // namespace

bool depends_on_length(const RopeConfig& rope) {
  return rope.scaling == RopeScaling::kDynamic ||
         (rope.scaling == RopeScaling::kLongrope && rope.short_factor != rope.long_factor);
}

RopeFrequencies rope_frequencies(const RopeConfig& rope, int64_t max_position_embeddings,
                                 int64_t prompt_length) {
  switch (rope.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kDynamic:
      return {plain_frequencies(rope.base, rope.rotary_dim), 1.0f};
    case RopeScaling::kLinear: {
      RopeFrequencies out{plain_frequencies(rope.base, rope.rotary_dim), 1.0f};
      for (float& freq : out.inv_freq) {
        freq /= rope.factor;
      }
      return out;
    }
    case RopeScaling::kLlama3:
      return {llama3_frequencies(rope), 1.0f};
    case RopeScaling::kYarn:
      return {yarn_frequencies(rope), yarn_attention_factor(rope)};
    case RopeScaling::kLongrope:
      return longrope_frequencies(rope, max_position_embeddings, prompt_length);
  }
  CHECK(false);
}

Result<void> parse_rope_scaling(const Json& scaling, int64_t max_position, RopeConfig& rope) {
  if (scaling.is_null()) {
    return {};
  }
  return ScalingReader(scaling, rope).read(max_position);
}

OrderedJson rope_scaling_json(const RopeConfig& rope) {
  if (rope.scaling == RopeScaling::kNone) {
    return nullptr;
  }
  OrderedJson json;
  json["rope_type"] = scaling_name(rope.scaling);
  json["factor"] = rope.factor;
  json["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  if (rope.scaling == RopeScaling::kLlama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.scaling == RopeScaling::kYarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    json["truncate"] = rope.truncate;
    if (rope.mscale != 0.0f) {
      json["mscale"] = rope.mscale;
    }
    if (rope.mscale_all_dim != 0.0f) {
      json["mscale_all_dim"] = rope.mscale_all_dim;
    }
  }
  if (rope.scaling == RopeScaling::kLongrope) {
    json["short_factor"] = rope.short_factor;
    json["long_factor"] = rope.long_factor;
  }
  if (rope.attention_factor != 0.0f) {
    json["attention_factor"] = rope.attention_factor;
  }
  return json;
}

}  // namespace zonda::models
