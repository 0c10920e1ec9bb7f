// SPDX-License-Identifier: Apache-2.0
#include "api/sequence_text.h"

namespace zonda::api {

SequenceText::SequenceText(const text::Tokenizer* tokenizer, bool skip_special_tokens,
                           const std::vector<std::string>& stops, bool include_stop,
                           int32_t min_tokens)
    : stops_(stops), tokens_left_before_stops_(min_tokens) {
  if (tokenizer == nullptr) {
    return;
  }
  detokenizer_.emplace(*tokenizer, skip_special_tokens);
  if (!stops.empty()) {
    matcher_.emplace(stops, include_stop);
  }
}

std::string SequenceText::match(const std::string& text) {
  if (!matcher_) {
    return text;
  }
  std::string certain = matcher_->push(text);
  if (matcher_->matched()) {
    stop_ = stops_[*matcher_->matched()];
  }
  return certain;
}

std::string SequenceText::push(int32_t id) {
  if (!detokenizer_ || stop_) {
    return {};
  }
  const std::string text = detokenizer_->push(id);
  if (tokens_left_before_stops_ > 0 && --tokens_left_before_stops_ > 0) {
    return text;
  }
  return match(text);
}

std::string SequenceText::finish() {
  if (!detokenizer_ || stop_) {
    return {};
  }
  std::string rest = match(detokenizer_->flush());
  if (matcher_ && !stop_) {
    rest += matcher_->flush();
  }
  return rest;
}

}  // namespace zonda::api
