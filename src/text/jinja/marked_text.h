// A string of the template language in which every byte knows whether the template wrote it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zonda::text::jinja {

class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string bytes, bool from_template)
      : bytes_(std::move(bytes)), first_(from_template) {}

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Whether the template wrote the byte at `pos`.
  bool from_template(size_t pos) const;
  // Calls visit(begin, end, from_template) for each run of bytes of one origin, in order.
  template <typename Visit>
  void for_each_run(Visit visit) const;

  void append(const MarkedText& other);
  void append(std::string_view bytes, bool from_template);
  MarkedText substr(size_t begin, size_t end) const;

  // HTML-safe (jinja's Markup): joined with a plain string by `+`, the plain one is escaped.
  bool markup = false;

 private:
  std::string bytes_;
  bool first_ = false;           // origin of the first byte
  std::vector<uint32_t> flips_;  // ascending positions inside where the origin changes
};

template <typename Visit>
void MarkedText::for_each_run(Visit visit) const {
  size_t begin = 0;
  bool origin = first_;
  for (const uint32_t flip : flips_) {
    visit(begin, size_t{flip}, origin);
    begin = flip;
    origin = !origin;
  }
  if (begin < bytes_.size()) {
    visit(begin, bytes_.size(), origin);
  }
}

}  // namespace zonda::text::jinja
