// A text under transformation in which every byte knows which part of the caller's text it stands
// for. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zonda::text {

// Half-open range of bytes.
struct ByteRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// A character of the new text. change 0: stands for the next old character; 1: inserted, it shares
// the range of the character before it; -n: stands for the next old one and n more are removed.
struct CharChange {
  char32_t code;
  int32_t change;
};

// Always valid UTF-8.
class AlignedText {
 public:
  AlignedText() = default;
  // A copy of source[range]. Ranges are only kept up to date if `track`.
  AlignedText(std::string_view source, ByteRange range, bool track);

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  bool tracked() const { return track_; }
  // Range of the source that the bytes [begin, end) stand for; {0, 0} when not tracked or empty.
  ByteRange origin(size_t begin, size_t end) const;

  // Replaces the whole text. `removed`: old characters dropped at the very beginning.
  void transform(std::span<const CharChange> chars, size_t removed = 0);
  // Inserts in front; no effect on an empty text.
  void prepend(std::string_view prefix);
  // Replaces each of the ascending, disjoint ranges; new bytes stand for the last replaced byte.
  void replace(std::span<const ByteRange> matches, std::string_view content);
  // The bytes [begin, end) alone; on character boundaries.
  AlignedText slice(size_t begin, size_t end) const;
  void append(const AlignedText& other);
  // Every byte becomes one character given by alphabet[byte], as `ByteLevel` does.
  void map_bytes(const std::string (&alphabet)[256]);

 private:
  std::string text_;
  std::vector<ByteRange> origins_;  // [text_.size()] if track_, else empty
  bool track_ = false;
};

}  // namespace zonda::text
