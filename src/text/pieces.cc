// One stretch of text, cut into pieces.
// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/utf8.h"

namespace zonda::text {

Pieces::Pieces(std::string_view source, ByteRange range, bool track)
    : source_(source), offset_(range.begin), length_(range.end - range.begin), track_(track) {
  ranges_.push_back({0, length_});
}

Pieces::Pieces(AlignedText text)
    : aligned_(std::move(text)), owned_(true), track_(aligned_.tracked()) {
  ranges_.push_back({0, static_cast<uint32_t>(aligned_.text().size())});
}

ByteRange Pieces::origin(size_t begin, size_t end) const {
  if (owned_) {
    return aligned_.origin(begin, end);
  }
  begin += offset_;
  end += offset_;
  while (begin > 0 && is_utf8_continuation(source_[begin])) {
    --begin;
  }
  while (end < source_.size() && is_utf8_continuation(source_[end])) {
    ++end;
  }
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

bool Pieces::begins_source(ByteRange piece) const {
  return owned_ ? aligned_.origin(piece.begin, piece.end).begin == 0 : offset_ + piece.begin == 0;
}

void Pieces::rewrite(const std::function<void(AlignedText&, ByteRange)>& change) {
  AlignedText rewritten;
  std::vector<ByteRange> ranges;
  ranges.reserve(ranges_.size());
  for (const ByteRange piece : ranges_) {
    AlignedText part =
        owned_ ? aligned_.slice(piece.begin, piece.end)
               : AlignedText(source_, {offset_ + piece.begin, offset_ + piece.end}, track_);
    change(part, piece);
    const auto begin = static_cast<uint32_t>(rewritten.text().size());
    rewritten.append(part);
    const auto end = static_cast<uint32_t>(rewritten.text().size());
    if (begin != end) {
      ranges.push_back({begin, end});
    }
  }
  aligned_ = std::move(rewritten);
  owned_ = true;
  ranges_ = std::move(ranges);
}

void apply_behavior(ByteRange piece, const std::vector<ByteRange>& matches, SplitBehavior behavior,
                    bool invert, std::vector<ByteRange>& out) {
  struct Part {
    ByteRange range;
    bool match;
  };
  std::vector<Part> parts;  // the whole piece: matches and what lies between
  uint32_t done = piece.begin;
  for (const ByteRange& match : matches) {
    if (done != match.begin) {
      parts.push_back({{done, match.begin}, invert});
    }
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done != piece.end) {
    parts.push_back({{done, piece.end}, invert});
  }

  std::vector<ByteRange> cut;
  bool previous = false;
  const auto walk = [&](const Part& part, bool join, auto extend) {
    if (join && !cut.empty()) {
      extend(cut.back(), part.range);
    } else {
      cut.push_back(part.range);
    }
    previous = part.match;
  };
  const auto extend_end = [](ByteRange& last, ByteRange next) { last.end = next.end; };
  const auto extend_begin = [](ByteRange& last, ByteRange next) { last.begin = next.begin; };
  if (behavior == SplitBehavior::kMergedWithNext) {
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      walk(*part, part->match && !previous, extend_begin);
    }
    std::reverse(cut.begin(), cut.end());
  } else {
    for (const Part& part : parts) {
      if (behavior == SplitBehavior::kContiguous) {
        walk(part, part.match == previous, extend_end);
      } else if (behavior == SplitBehavior::kMergedWithPrevious) {
        walk(part, part.match && !previous, extend_end);
      } else if (behavior == SplitBehavior::kIsolated || !part.match) {
        cut.push_back(part.range);
      }
    }
  }
  for (const ByteRange& range : cut) {
    if (range.begin != range.end) {
      out.push_back(range);
    }
  }
}

}  // namespace zonda::text
