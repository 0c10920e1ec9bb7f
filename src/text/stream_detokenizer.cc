// Turns the ids of a running generation into text, piece by piece.
// SPDX-License-Identifier: Apache-2.0
#include "text/stream_detokenizer.h"

#include "text/utf8.h"

namespace zonda::text {

StreamDetokenizer::StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

std::string StreamDetokenizer::push(int32_t id) {
  if (skip_special_tokens_ && tokenizer_.is_special(id)) {
    return {};
  }
  tokenizer_.decoder().feed(state_, id, pending_);
  std::string text;
  size_t pos = 0;
  while (pos < pending_.size()) {
    const Utf8Step step = check_utf8(pending_, pos);
    if (step.kind == Utf8Step::Kind::kIncomplete) {
      break;
    }
    if (step.kind == Utf8Step::Kind::kValid) {
      text.append(pending_, pos, step.length);
    } else {
      text += kReplacementUtf8;
    }
    pos += step.length;
  }
  pending_.erase(0, pos);
  return text;
}

std::string StreamDetokenizer::flush() {
  tokenizer_.decoder().finish(state_, pending_);
  std::string text = to_valid_utf8(pending_);
  pending_.clear();
  state_ = {};
  return text;
}

}  // namespace zonda::text
