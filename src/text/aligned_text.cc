// A text under transformation in which every byte knows its origin.
// SPDX-License-Identifier: Apache-2.0
#include "text/aligned_text.h"

#include "text/utf8.h"

namespace zonda::text {

AlignedText::AlignedText(std::string_view source, ByteRange range, bool track)
    : text_(source.substr(range.begin, range.end - range.begin)), track_(track) {
  if (!track) {
    return;
  }
  origins_.reserve(text_.size());
  for (uint32_t pos = 0; pos < text_.size();) {
    const auto length = static_cast<uint32_t>(utf8_length(static_cast<unsigned char>(text_[pos])));
    const uint32_t begin = range.begin + pos;
    origins_.insert(origins_.end(), length, ByteRange{begin, begin + length});
    pos += length;
  }
}

ByteRange AlignedText::origin(size_t begin, size_t end) const {
  if (!track_ || begin >= end) {
    return {};
  }
  return {origins_[begin].begin, origins_[end - 1].end};
}

void AlignedText::transform(std::span<const CharChange> chars, size_t removed) {
  std::string text;
  text.reserve(text_.size());
  std::vector<ByteRange> origins;
  origins.reserve(origins_.size());
  size_t old = 0;  // position in the old text
  const auto skip = [&] {
    if (old < text_.size()) {
      old += utf8_length(static_cast<unsigned char>(text_[old]));
    }
  };
  for (size_t i = 0; i < removed; ++i) {
    skip();
  }
  for (const CharChange& c : chars) {
    ByteRange origin;
    if (track_ && c.change > 0) {
      origin = old == 0 ? ByteRange{} : origins_[old - 1];
    } else if (track_) {
      origin = origins_[old];
    }
    if (c.change <= 0) {
      skip();
    }
    for (int32_t i = c.change; i < 0; ++i) {
      skip();
    }
    append_utf8(text, c.code);
    if (track_) {
      origins.resize(text.size(), origin);
    }
  }
  text_ = std::move(text);
  origins_ = std::move(origins);
}

void AlignedText::prepend(std::string_view prefix) {
  if (text_.empty()) {
    return;
  }
  text_.insert(0, prefix);
  if (track_) {
    origins_.insert(origins_.begin(), prefix.size(), origins_.front());
  }
}

void AlignedText::replace(std::span<const ByteRange> matches, std::string_view content) {
  if (matches.empty()) {
    return;
  }
  std::string text;
  std::vector<ByteRange> origins;
  size_t done = 0;
  const auto keep_until = [&](size_t end) {
    text.append(text_, done, end - done);
    if (track_) {
      origins.insert(origins.end(), origins_.begin() + static_cast<ptrdiff_t>(done),
                     origins_.begin() + static_cast<ptrdiff_t>(end));
    }
  };
  for (const ByteRange& match : matches) {
    keep_until(match.begin);
    text += content;
    if (track_) {
      origins.resize(text.size(), match.end == 0 ? ByteRange{} : origins_[match.end - 1]);
    }
    done = match.end;
  }
  keep_until(text_.size());
  text_ = std::move(text);
  origins_ = std::move(origins);
}

AlignedText AlignedText::slice(size_t begin, size_t end) const {
  AlignedText part;
  part.text_ = text_.substr(begin, end - begin);
  part.track_ = track_;
  if (track_) {
    part.origins_.assign(origins_.begin() + static_cast<ptrdiff_t>(begin),
                         origins_.begin() + static_cast<ptrdiff_t>(end));
  }
  return part;
}

void AlignedText::append(const AlignedText& other) {
  text_ += other.text_;
  origins_.insert(origins_.end(), other.origins_.begin(), other.origins_.end());
  track_ = other.track_;
}

void AlignedText::map_bytes(const std::string (&alphabet)[256]) {
  std::string text;
  text.reserve(text_.size() * 2);
  std::vector<ByteRange> origins;
  for (size_t i = 0; i < text_.size(); ++i) {
    text += alphabet[static_cast<unsigned char>(text_[i])];
    if (track_) {
      origins.resize(text.size(), origins_[i]);
    }
  }
  text_ = std::move(text);
  origins_ = std::move(origins);
}

}  // namespace zonda::text
