// Normalizers of tokenizer.json: rewrites of the text before it is split.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/json.h"
#include "text/aligned_text.h"

namespace zonda::text {

// Immutable; apply() may run on many threads at once.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Fault if a regular expression exceeds its limits.
  virtual void apply(AlignedText& text) const = 0;
};

// Null for JSON null or an empty Sequence. Fault: kUnsupported for a type that is not supported,
// kCorrupt for wrong fields.
std::unique_ptr<Normalizer> parse_normalizer(const Json& json);

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };
void apply_normal_form(NormalForm form, AlignedText& text);

}  // namespace zonda::text
