// Pre-tokenizers of tokenizer.json: they cut a text into pieces that the model encodes one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/aligned_text.h"

namespace zonda::text {

// One stretch of text without added tokens, cut into pieces. Content is borrowed from the caller's
// text as long as no step rewrites it.
class Pieces {
 public:
  // Borrows source[range], which stands for itself.
  Pieces(std::string_view source, ByteRange range, bool track);
  // Takes a normalized text over.
  explicit Pieces(AlignedText text);

  std::string_view text() const {
    return owned_ ? std::string_view(aligned_.text()) : source_.substr(offset_, length_);
  }
  std::string_view text(ByteRange piece) const {
    return text().substr(piece.begin, piece.end - piece.begin);
  }
  // Non-empty, ascending, disjoint ranges of text().
  std::vector<ByteRange>& ranges() { return ranges_; }
  const std::vector<ByteRange>& ranges() const { return ranges_; }

  bool tracked() const { return track_; }
  // Range of the caller's text that [begin, end) stands for, widened to whole characters. Needs
  // tracking, or borrowed text.
  ByteRange origin(size_t begin, size_t end) const;
  // Whether the piece begins at byte 0 of the caller's text.
  bool begins_source(ByteRange piece) const;

  // Replaces each piece by what `change(text, piece)` makes of its text; pieces may become empty
  // and are dropped then.
  void rewrite(const std::function<void(AlignedText&, ByteRange)>& change);

  // The pieces hold raw bytes that the model takes as such: the mapping of `ByteLevel`, put off.
  bool raw_bytes = false;

 private:
  std::string_view source_;  // the caller's whole text; the pieces lie in [offset_, +length_)
  uint32_t offset_ = 0;
  uint32_t length_ = 0;
  AlignedText aligned_;  // takes the place of source_ if owned_
  bool owned_ = false;
  bool track_ = false;
  std::vector<ByteRange> ranges_;
};

// Immutable; split() may run on many threads at once.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Fault if a regular expression exceeds its limits.
  virtual void split(Pieces& pieces) const = 0;
};

struct PreTokenizerChain {
  std::vector<std::unique_ptr<PreTokenizer>> steps;  // nested sequences are flattened
  // The last step is `ByteLevel`: it leaves raw bytes if asked to by `defer_bytes`.
  bool ends_with_byte_level = false;
  // Some step asks where in the source a piece begins: normalized text must be tracked.
  bool needs_origins = false;
};

// JSON null gives an empty chain. `defer_bytes`: a final ByteLevel sets Pieces::raw_bytes instead
// of mapping. Fault: kUnsupported for an unknown type, kCorrupt for wrong fields.
PreTokenizerChain parse_pre_tokenizers(const Json& json, bool defer_bytes);

enum class SplitBehavior : uint8_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};
// Cuts one piece at its matches (ascending, disjoint, inside the piece) and appends the results.
void apply_behavior(ByteRange piece, const std::vector<ByteRange>& matches, SplitBehavior behavior,
                    bool invert, std::vector<ByteRange>& out);

}  // namespace zonda::text
