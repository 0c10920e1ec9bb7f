// A string in which every byte knows whether the template wrote it.
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/marked_text.h"

#include <algorithm>

namespace zonda::text::jinja {

bool MarkedText::from_template(size_t pos) const {
  const auto flips = std::upper_bound(flips_.begin(), flips_.end(), pos) - flips_.begin();
  return flips % 2 == 0 ? first_ : !first_;
}

void MarkedText::append(std::string_view bytes, bool from_template) {
  if (bytes.empty()) {
    return;
  }
  if (bytes_.empty()) {
    first_ = from_template;
    flips_.clear();
  } else if (this->from_template(bytes_.size() - 1) != from_template) {
    flips_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  bytes_ += bytes;
}

void MarkedText::append(const MarkedText& other) {
  other.for_each_run([&](size_t begin, size_t end, bool from_template) {
    append(std::string_view(other.bytes_).substr(begin, end - begin), from_template);
  });
}

MarkedText MarkedText::substr(size_t begin, size_t end) const {
  MarkedText part;
  part.markup = markup;
  if (begin >= end) {
    return part;
  }
  part.bytes_ = bytes_.substr(begin, end - begin);
  part.first_ = from_template(begin);
  for (const uint32_t flip : flips_) {
    if (flip > begin && flip < end) {
      part.flips_.push_back(flip - static_cast<uint32_t>(begin));
    }
  }
  return part;
}

}  // namespace zonda::text::jinja
