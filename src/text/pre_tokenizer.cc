// Pre-tokenizers of tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/char_classes.h"
#include "text/fault.h"
#include "text/gpt2_scanner.h"
#include "text/json_fields.h"
#include "text/pattern.h"
#include "text/utf8.h"

namespace zonda::text {
namespace {

// Cuts every piece with find(piece, matches), which appends the matches inside the piece.
template <typename Find>
void cut_pieces(Pieces& pieces, SplitBehavior behavior, bool invert, Find find) {
  std::vector<ByteRange> out;
  out.reserve(pieces.ranges().size());
  std::vector<ByteRange> matches;
  for (const ByteRange piece : pieces.ranges()) {
    matches.clear();
    find(piece, matches);
    if (matches.empty() && !invert) {
      out.push_back(piece);
    } else {
      apply_behavior(piece, matches, behavior, invert, out);
    }
  }
  pieces.ranges() = std::move(out);
}

// Cuts every piece at single characters that `matches(code)` accepts.
template <typename Accept>
void cut_at_characters(Pieces& pieces, SplitBehavior behavior, Accept accept) {
  cut_pieces(pieces, behavior, false, [&](ByteRange piece, std::vector<ByteRange>& matches) {
    for (size_t pos = piece.begin; pos < piece.end;) {
      const auto begin = static_cast<uint32_t>(pos);
      if (accept(next_code_point(pieces.text(), pos))) {
        matches.push_back({begin, static_cast<uint32_t>(pos)});
      }
    }
  });
}

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex, bool defer)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex), defer_(defer) {}

  void split(Pieces& pieces) const override {
    if (add_prefix_space_) {
      pieces.rewrite([](AlignedText& text, ByteRange) {
        if (!text.text().starts_with(' ')) {
          text.prepend(" ");
        }
      });
    }
    if (use_regex_) {
      cut_words(pieces);
    }
    if (defer_) {
      pieces.raw_bytes = true;
    } else {
      pieces.rewrite([](AlignedText& text, ByteRange) { text.map_bytes(byte_alphabet()); });
    }
  }

 private:
  static void cut_words(Pieces& pieces) {
    std::vector<ByteRange> out;
    out.reserve(pieces.ranges().size() + pieces.text().size() / 4);
    for (const ByteRange piece : pieces.ranges()) {
      const std::string_view text = pieces.text(piece);
      for (size_t pos = 0; pos < text.size();) {
        const size_t end = gpt2_match_end(text, pos);
        out.push_back(
            {piece.begin + static_cast<uint32_t>(pos), piece.begin + static_cast<uint32_t>(end)});
        pos = end;
      }
    }
    pieces.ranges() = std::move(out);
  }

  bool add_prefix_space_;
  bool use_regex_;
  bool defer_;
};

class Digits : public PreTokenizer {
 public:
  explicit Digits(bool individual)
      : behavior_(individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous) {}
  void split(Pieces& pieces) const override {
    const CharClasses& classes = CharClasses::get();
    cut_at_characters(pieces, behavior_, [&](char32_t code) { return classes.is(code, kNumber); });
  }

 private:
  SplitBehavior behavior_;
};

class Split : public PreTokenizer {
 public:
  Split(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(Pieces& pieces) const override {
    cut_pieces(pieces, behavior_, invert_, [&](ByteRange piece, std::vector<ByteRange>& matches) {
      pattern_.find(pieces.text(piece), piece.begin, matches);
    });
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

bool is_punctuation(const CharClasses& classes, char32_t code) {
  constexpr std::u32string_view kAsciiSymbols = U"$+<=>^`|~";
  return classes.is(code, kPunctuation) || kAsciiSymbols.find(code) != std::u32string_view::npos;
}

class Punctuation : public PreTokenizer {
 public:
  explicit Punctuation(SplitBehavior behavior) : behavior_(behavior) {}
  void split(Pieces& pieces) const override {
    const CharClasses& classes = CharClasses::get();
    cut_at_characters(pieces, behavior_,
                      [&](char32_t code) { return is_punctuation(classes, code); });
  }

 private:
  SplitBehavior behavior_;
};

class WhitespaceSplit : public PreTokenizer {
 public:
  void split(Pieces& pieces) const override {
    const CharClasses& classes = CharClasses::get();
    cut_at_characters(pieces, SplitBehavior::kRemoved,
                      [&](char32_t code) { return classes.is(code, kSpace); });
  }
};

// Keeps runs of word characters and runs of other characters that are not white space.
class Whitespace : public PreTokenizer {
 public:
  void split(Pieces& pieces) const override {
    const CharClasses& classes = CharClasses::get();
    const auto kind = [&](char32_t code) {
      return classes.is(code, kWord) ? 2 : classes.is(code, kSpace) ? 0 : 1;
    };
    std::vector<ByteRange> out;
    for (const ByteRange piece : pieces.ranges()) {
      int last = 0;
      for (size_t pos = piece.begin; pos < piece.end;) {
        const auto begin = static_cast<uint32_t>(pos);
        const int current = kind(next_code_point(pieces.text(), pos));
        if (current != 0 && current == last) {
          out.back().end = static_cast<uint32_t>(pos);
        } else if (current != 0) {
          out.push_back({begin, static_cast<uint32_t>(pos)});
        }
        last = current;
      }
    }
    pieces.ranges() = std::move(out);
  }
};

class BertPreTokenizer : public PreTokenizer {
 public:
  void split(Pieces& pieces) const override {
    WhitespaceSplit().split(pieces);
    Punctuation(SplitBehavior::kIsolated).split(pieces);
  }
};

class CharDelimiter : public PreTokenizer {
 public:
  explicit CharDelimiter(char32_t delimiter) : delimiter_(delimiter) {}
  void split(Pieces& pieces) const override {
    cut_at_characters(pieces, SplitBehavior::kRemoved,
                      [&](char32_t code) { return code == delimiter_; });
  }

 private:
  char32_t delimiter_;
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(int64_t length) : length_(length) {}
  void split(Pieces& pieces) const override {
    std::vector<ByteRange> out;
    for (const ByteRange piece : pieces.ranges()) {
      for (size_t pos = piece.begin; pos < piece.end;) {
        const auto begin = static_cast<uint32_t>(pos);
        for (int64_t i = 0; i < length_ && pos < piece.end; ++i) {
          next_code_point(pieces.text(), pos);
        }
        out.push_back({begin, static_cast<uint32_t>(pos)});
      }
    }
    pieces.ranges() = std::move(out);
  }

 private:
  int64_t length_;
};

enum class PrependScheme : uint8_t { kFirst, kNever, kAlways };

class Metaspace : public PreTokenizer {
 public:
  Metaspace(char32_t replacement, PrependScheme scheme, bool split)
      : code_(replacement), scheme_(scheme), split_(split) {
    append_utf8(replacement_, replacement);
  }
  void split(Pieces& pieces) const override {
    pieces.rewrite([&](AlignedText& text, ByteRange piece) {
      const bool first = scheme_ == PrependScheme::kFirst && pieces.begins_source(piece);
      replace_spaces(text);
      if ((first || scheme_ == PrependScheme::kAlways) && !text.text().starts_with(replacement_)) {
        text.prepend(replacement_);
      }
    });
    if (split_) {
      cut_at_characters(pieces, SplitBehavior::kMergedWithNext,
                        [&](char32_t code) { return code == code_; });
    }
  }

 private:
  void replace_spaces(AlignedText& text) const {
    std::vector<ByteRange> spaces;
    for (uint32_t i = 0; i < text.text().size(); ++i) {
      if (text.text()[i] == ' ') {
        spaces.push_back({i, i + 1});
      }
    }
    text.replace(spaces, replacement_);
  }

  char32_t code_;
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

SplitBehavior parse_behavior(const Fields& fields, const std::string& name) {
  constexpr std::pair<const char*, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  };
  for (const auto& [known, behavior] : kNames) {
    if (name == known) {
      return behavior;
    }
  }
  throw Fault{
      unsupported("[tokenizer] {}.behavior \"{}\" is not supported.", fields.where(), name)};
}

char32_t parse_character(Fields& fields, const char* name) {
  const std::u32string codes = to_code_points(fields.string(name));
  if (codes.size() != 1) {
    fields.fail(name, "one character");
  }
  return codes[0];
}

std::unique_ptr<PreTokenizer> parse_metaspace(Fields& fields, PreTokenizerChain& chain) {
  const char32_t replacement = parse_character(fields, "replacement");
  const std::string name = fields.optional_string("prepend_scheme").value_or("always");
  PrependScheme scheme = PrependScheme::kAlways;
  if (name == "first") {
    scheme = PrependScheme::kFirst;
    chain.needs_origins = true;
  } else if (name == "never") {
    scheme = PrependScheme::kNever;
  } else if (name != "always") {
    fields.fail("prepend_scheme", "first, never or always");
  }
  if (!fields.boolean("add_prefix_space", true)) {
    if (fields.has("prepend_scheme") && scheme != PrependScheme::kNever) {
      fields.fail("add_prefix_space", "what prepend_scheme says");
    }
    scheme = PrependScheme::kNever;
  }
  fields.ignore({"str_rep"});
  return std::make_unique<Metaspace>(replacement, scheme, fields.boolean("split", true));
}

std::unique_ptr<PreTokenizer> parse_split(Fields& fields) {
  Pattern pattern = Pattern::parse(fields.value("pattern"), fields.where());
  const SplitBehavior behavior = parse_behavior(fields, fields.string("behavior"));
  return std::make_unique<Split>(std::move(pattern), behavior, fields.boolean("invert"));
}

std::unique_ptr<PreTokenizer> parse_simple(const std::string& type, Fields& fields) {
  if (type == "Digits") {
    return std::make_unique<Digits>(fields.boolean("individual_digits"));
  }
  if (type == "Punctuation") {
    const auto name = fields.optional_string("behavior").value_or("Isolated");
    return std::make_unique<Punctuation>(parse_behavior(fields, name));
  }
  if (type == "Whitespace") {
    return std::make_unique<Whitespace>();
  }
  if (type == "WhitespaceSplit") {
    return std::make_unique<WhitespaceSplit>();
  }
  if (type == "BertPreTokenizer") {
    return std::make_unique<BertPreTokenizer>();
  }
  if (type == "CharDelimiterSplit" || type == "Delimiter") {
    return std::make_unique<CharDelimiter>(parse_character(fields, "delimiter"));
  }
  if (type == "FixedLength") {
    const int64_t length = fields.has("length") ? fields.integer("length") : 5;
    if (length < 1) {
      fields.fail("length", "positive");
    }
    return std::make_unique<FixedLength>(length);
  }
  throw_unsupported_component("pre_tokenizer", type);
}

// Appends the component, sequences flattened, as JSON objects.
void flatten(const Json& json, std::vector<const Json*>& out) {
  if (component_type(json, "pre_tokenizer") != "Sequence") {
    out.push_back(&json);
    return;
  }
  Fields fields(json, "pre_tokenizer.Sequence");
  for (const Json& step : fields.array("pretokenizers")) {
    flatten(step, out);
  }
  fields.finish();
}

}  // namespace

PreTokenizerChain parse_pre_tokenizers(const Json& json, bool defer_bytes) {
  PreTokenizerChain chain;
  if (json.is_null()) {
    return chain;
  }
  std::vector<const Json*> components;
  flatten(json, components);
  for (size_t i = 0; i < components.size(); ++i) {
    const std::string type = component_type(*components[i], "pre_tokenizer");
    Fields fields(*components[i], "pre_tokenizer." + type);
    const bool last = i + 1 == components.size();
    if (type == "ByteLevel") {
      fields.ignore({"trim_offsets"});  // only the post-processor of that name trims
      const bool prefix = fields.boolean("add_prefix_space");
      const bool use_regex = fields.boolean("use_regex", true);
      chain.steps.push_back(std::make_unique<ByteLevel>(prefix, use_regex, last && defer_bytes));
      chain.ends_with_byte_level = last;
    } else if (type == "Metaspace") {
      chain.steps.push_back(parse_metaspace(fields, chain));
    } else if (type == "Split") {
      chain.steps.push_back(parse_split(fields));
    } else {
      chain.steps.push_back(parse_simple(type, fields));
    }
    fields.finish();
  }
  return chain;
}

}  // namespace zonda::text
