// generation_config.json: end ids and the sampling that the model's makers recommend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zonda/error.h"
#include "zonda/sampling.h"

namespace zonda::api {

struct GenerationSettings {
  std::vector<int32_t> end_ids;
  SamplingParams sampling;                 // only what the file sets; greedy if do_sample is false
  std::vector<std::string> sampling_keys;  // the keys of the file that `sampling` comes from
};

// kCorrupt names the key of a wrong type or range. `what` names the text in messages.
Result<GenerationSettings> parse_generation_settings(std::string_view json, std::string_view what);

// Ids in `more` that `ids` lacks are appended.
void add_ids(std::vector<int32_t>& ids, const std::vector<int32_t>& more);

}  // namespace zonda::api
