// Whether the newest token ends a sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "zonda/executor.h"

namespace zonda::runtime {

// `output`: all output tokens, the newest last, at least one. End ids go before stop words, these
// before the length.
FinishReason finish_reason(const SamplingParams& params, std::span<const int32_t> end_ids,
                           int32_t max_new_tokens, std::span<const int32_t> output);

}  // namespace zonda::runtime
