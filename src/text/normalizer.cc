// Normalizers of tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include <utf8proc.h>

#include "text/byte_alphabet.h"
#include "text/char_classes.h"
#include "text/fault.h"
#include "text/json_fields.h"
#include "text/pattern.h"
#include "text/utf8.h"

namespace zonda::text {
namespace {

class NormalFormNormalizer : public Normalizer {
 public:
  explicit NormalFormNormalizer(NormalForm form) : form_(form) {}
  void apply(AlignedText& text) const override { apply_normal_form(form_, text); }

 private:
  NormalForm form_;
};

class Lowercase : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    std::vector<CharChange> chars;
    for (size_t pos = 0; pos < text.text().size();) {
      const char32_t code = next_code_point(text.text(), pos);
      if (code == U'\u0130') {  // the one character whose lower case is two
        chars.push_back({U'i', 0});
        chars.push_back({U'\u0307', 1});
      } else {
        chars.push_back(
            {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), 0});
      }
    }
    text.transform(chars);
  }
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(AlignedText& text) const override { text.prepend(prefix_); }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(AlignedText& text) const override {
    std::vector<ByteRange> matches;
    pattern_.find(text.text(), 0, matches);
    text.replace(matches, content_);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// Keeps what `keep(code, index, count)` accepts; the removed characters belong to the one before.
template <typename Keep>
void filter(AlignedText& text, Keep keep) {
  const std::u32string codes = to_code_points(text.text());
  std::vector<CharChange> chars;
  size_t removed = 0;  // before the first kept character
  for (size_t i = 0; i < codes.size(); ++i) {
    if (keep(codes[i], i)) {
      chars.push_back({codes[i], 0});
    } else if (chars.empty()) {
      ++removed;
    } else {
      --chars.back().change;
    }
  }
  text.transform(chars, removed);
}

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText& text) const override {
    const CharClasses& classes = CharClasses::get();
    const std::u32string codes = to_code_points(text.text());
    size_t begin = 0;
    size_t end = codes.size();
    while (left_ && begin < end && classes.is(codes[begin], kSpace)) {
      ++begin;
    }
    while (right_ && end > begin && classes.is(codes[end - 1], kSpace)) {
      --end;
    }
    filter(text, [=](char32_t, size_t i) { return i >= begin && i < end; });
  }

 private:
  bool left_;
  bool right_;
};

class StripAccents : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    const CharClasses& classes = CharClasses::get();
    filter(text, [&](char32_t code, size_t) { return !classes.is(code, kMark); });
  }
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(AlignedText& text) const override { text.map_bytes(byte_alphabet()); }
};

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> steps)
      : steps_(std::move(steps)) {}
  void apply(AlignedText& text) const override {
    for (const auto& step : steps_) {
      step->apply(text);
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

std::unique_ptr<Normalizer> parse_sequence(Fields& fields) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const Json& json : fields.array("normalizers")) {
    if (auto step = parse_normalizer(json); step != nullptr) {
      steps.push_back(std::move(step));
    }
  }
  if (steps.empty()) {
    return nullptr;
  }
  return std::make_unique<SequenceNormalizer>(std::move(steps));
}

std::unique_ptr<Normalizer> make_simple(const std::string& type) {
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    const bool compatibility = type.size() == 4;
    const bool composed = type.back() == 'C';
    return std::make_unique<NormalFormNormalizer>(
        compatibility ? (composed ? NormalForm::kNfkc : NormalForm::kNfkd)
                      : (composed ? NormalForm::kNfc : NormalForm::kNfd));
  }
  if (type == "Lowercase") {
    return std::make_unique<Lowercase>();
  }
  if (type == "StripAccents") {
    return std::make_unique<StripAccents>();
  }
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevelNormalizer>();
  }
  throw_unsupported_component("normalizer", type);
}

}  // namespace

std::unique_ptr<Normalizer> parse_normalizer(const Json& json) {
  if (json.is_null()) {
    return nullptr;
  }
  const std::string type = component_type(json, "normalizer");
  Fields fields(json, "normalizer." + type);
  std::unique_ptr<Normalizer> normalizer;
  if (type == "Sequence") {
    normalizer = parse_sequence(fields);
  } else if (type == "Prepend") {
    normalizer = std::make_unique<Prepend>(fields.string("prepend"));
  } else if (type == "Replace") {
    Pattern pattern = Pattern::parse(fields.value("pattern"), fields.where());
    normalizer = std::make_unique<Replace>(std::move(pattern), fields.string("content"));
  } else if (type == "Strip") {
    const bool left = fields.boolean("strip_left");
    normalizer = std::make_unique<Strip>(left, fields.boolean("strip_right"));
  } else {
    normalizer = make_simple(type);
  }
  fields.finish();
  return normalizer;
}

}  // namespace zonda::text
