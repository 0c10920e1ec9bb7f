// Everything that is known about a model of any form, each value with where it comes from: what
// `zonda inspect` shows. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"
#include "zonda/error.h"

namespace zonda::api {

// {"section": {"name": {"value": ..., "from": "config.json"}}}: sections source, model, stop,
// sampling, tokenizer, memory and, for an engine, engine. Reads headers and configuration, never
// the weights. `tokenizer_dir` may be empty.
Result<OrderedJson> describe_model(const std::string& path, const std::string& tokenizer_dir);

}  // namespace zonda::api
