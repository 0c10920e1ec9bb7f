// A request as the scheduler sees it: tokens to compute and bounds, no meaning of either.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/hash.h"

namespace zonda::scheduler {

using RequestId = uint64_t;

struct Request {
  RequestId id = 0;
  std::vector<int32_t> prompt;     // at least one token
  int32_t max_new_tokens = 0;      // of each sequence; 0 computes the prompt only
  int32_t num_sequences = 1;       // the prompt is computed once, then they go their own ways
  bool all_prompt_logits = false;  // every prompt position's logits are wanted: no reuse before
  bool reuse_prefix = true;        // may take known blocks; computed ones become known anyway
  Hash128 cache_salt;              // everything besides tokens that keys and values depend on
};

}  // namespace zonda::scheduler
