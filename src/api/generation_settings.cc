// SPDX-License-Identifier: Apache-2.0
#include "api/generation_settings.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace zonda::api {
namespace {

// Reads optional keys of one object; the first fault is kept.
class Reader {
 public:
  Reader(const Json& json, std::string_view what, std::vector<std::string>& used)
      : json_(json), what_(what), used_(used) {}

  template <typename T>
  void number(const char* key, double least, double most, std::optional<T>& out) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) {
      return;
    }
    const double value = found->is_number() ? found->get<double>() : least - 1.0;
    if (!(value >= least && value <= most)) {
      fail(corrupt("[load] {}: {} is {}, expected a number from {} to {}.", what_, key,
                   dump_json(*found), least, most));
      return;
    }
    out = static_cast<T>(value);
    used_.push_back(key);
  }

  void ids(const char* key, std::vector<int32_t>& out) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) {
      return;
    }
    const Json list = found->is_array() ? *found : Json::array({*found});
    for (const Json& id : list) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) {
        fail(corrupt("[load] {}: {} is {}, expected token ids.", what_, key, dump_json(*found)));
        return;
      }
      out.push_back(id.get<int32_t>());
    }
  }

  void fail(Error error) {
    if (!fault_) {
      fault_ = std::move(error);
    }
  }
  const std::optional<Error>& fault() const { return fault_; }

 private:
  const Json& json_;
  std::string_view what_;
  std::vector<std::string>& used_;
  std::optional<Error> fault_;
};

}  // namespace

Result<GenerationSettings> parse_generation_settings(std::string_view text, std::string_view what) {
  Result<Json> json = parse_json(text, what);
  if (!json) {
    return json.error();
  }
  if (!json->is_object()) {
    return corrupt("[load] {} is not a JSON object.", what);
  }
  GenerationSettings settings;
  Reader reader(*json, what, settings.sampling_keys);
  reader.ids("eos_token_id", settings.end_ids);
  std::optional<float> penalty;
  reader.number("repetition_penalty", 1e-6, 100.0, penalty);
  settings.sampling.repetition_penalty = penalty.value_or(1.0f);
  const auto do_sample = json->find("do_sample");
  const bool greedy = do_sample != json->end() && do_sample->is_boolean() && !*do_sample;
  if (greedy) {
    settings.sampling.temperature = 0.0f;
    settings.sampling_keys.push_back("do_sample");
  } else {
    reader.number("temperature", 0.0, 100.0, settings.sampling.temperature);
    reader.number("top_k", 0.0, 1e9, settings.sampling.top_k);
    reader.number("top_p", 0.0, 1.0, settings.sampling.top_p);
    reader.number("min_p", 0.0, 1.0, settings.sampling.min_p);
    const bool samples = do_sample != json->end() && do_sample->is_boolean() && *do_sample;
    if (samples && !settings.sampling.temperature) {
      settings.sampling.temperature = 1.0f;
      settings.sampling_keys.push_back("do_sample");
    }
  }
  if (reader.fault()) {
    return *reader.fault();
  }
  return settings;
}

void add_ids(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
  for (const int32_t id : more) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
      ids.push_back(id);
    }
  }
}

}  // namespace zonda::api
