// A part of a rendered prompt with its provenance.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace zonda::text {

struct Segment {
  std::string text;
  bool from_template;  // written by the template, so it may spell special tokens; else input

  friend bool operator==(const Segment&, const Segment&) = default;
};

}  // namespace zonda::text
