// End ids, stop words and the length, in this order.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/stop_conditions.h"

#include <algorithm>

namespace zonda::runtime {

FinishReason finish_reason(const SamplingParams& params, std::span<const int32_t> end_ids,
                           int32_t max_new_tokens, std::span<const int32_t> output) {
  const auto size = static_cast<int32_t>(output.size());
  if (!params.ignore_eos && std::ranges::find(end_ids, output.back()) != end_ids.end()) {
    return FinishReason::kEndId;
  }
  if (size > params.min_tokens) {
    for (const auto& word : params.stop_words) {
      if (word.size() <= output.size() && std::ranges::equal(output.last(word.size()), word)) {
        return FinishReason::kStopWords;
      }
    }
  }
  return size >= max_new_tokens ? FinishReason::kLength : FinishReason::kNotFinished;
}

}  // namespace zonda::runtime
