// Post-processors of tokenizer.json: tokens around a sequence and the trimming of offsets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace zonda::text {

struct FixedToken {
  int32_t id;
  std::string text;
};

struct PostProcessor {
  std::vector<FixedToken> before;  // added in front if special tokens are asked for
  std::vector<FixedToken> after;
  // White space at the edges of a token is left out of its offsets.
  bool trim_offsets = false;
  bool add_prefix_space = false;  // the space that was put in front of the text is kept
};

// JSON null gives an empty one. Fault as parse_pre_tokenizers.
PostProcessor parse_post_processor(const Json& json);

}  // namespace zonda::text
