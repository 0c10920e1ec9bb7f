// One call of Tokenizer::encode.
// SPDX-License-Identifier: Apache-2.0
#include "text/text_encoder.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/char_classes.h"
#include "text/utf8.h"

namespace zonda::text {

TextEncoder::TextEncoder(const Tokenizer::Parts& parts, std::string_view text,
                         const AddedTokens::AllowSpecial& allow_special)
    : parts_(parts), text_(text), allow_special_(allow_special) {}

std::vector<int32_t> TextEncoder::ids() && {
  const bool rewritten = parts_.normalizer != nullptr || parts_.pre_tokenizers.steps.size() > 1;
  track_ = (parts_.pre_tokenizers.needs_origins && rewritten) ||
           (parts_.normalizer != nullptr && parts_.added.has_normalized_special());
  run();
  return std::move(out_.ids);
}

Encoding TextEncoder::encoding() && {
  full_ = true;
  track_ = true;
  run();
  if (parts_.post_processor.trim_offsets) {
    trim_offsets(parts_.post_processor.add_prefix_space, out_);
  }
  return std::move(out_);
}

void TextEncoder::run() {
  out_.ids.reserve(text_.size() / 4 + 1);
  for (const AddedSection& section : parts_.added.split(text_, false, allow_special_)) {
    if (section.token != nullptr) {
      add_token(*section.token,
                text_.substr(section.range.begin, section.range.end - section.range.begin),
                section.range);
    } else {
      encode_stretch(section.range);
    }
  }
}

void TextEncoder::encode_stretch(ByteRange range) {
  if (parts_.normalizer == nullptr) {
    encode_plain(range);
    return;
  }
  AlignedText text(text_, range, track_);
  parts_.normalizer->apply(text);
  encode_normalized(std::move(text));
}

void TextEncoder::encode_plain(ByteRange range) {
  const std::string_view text = text_.substr(range.begin, range.end - range.begin);
  const auto to_source = [&](ByteRange part) {
    return ByteRange{range.begin + part.begin, range.begin + part.end};
  };
  const auto allow = [&](ByteRange match) { return allow_special_(to_source(match)); };
  for (const AddedSection& section : parts_.added.split(text, true, allow)) {
    const ByteRange source = to_source(section.range);
    if (section.token != nullptr) {
      add_token(*section.token, text_.substr(source.begin, source.end - source.begin), source);
    } else {
      encode_pieces(Pieces(text_, source, track_));
    }
  }
}

void TextEncoder::encode_normalized(AlignedText text) {
  const auto allow = [&](ByteRange match) {
    return allow_special_(text.origin(match.begin, match.end));
  };
  for (const AddedSection& section : parts_.added.split(text.text(), true, allow)) {
    const auto [begin, end] = section.range;
    if (section.token != nullptr) {
      add_token(*section.token, std::string_view(text.text()).substr(begin, end - begin),
                text.origin(begin, end));
    } else if (begin == 0 && end == text.text().size()) {
      encode_pieces(Pieces(std::move(text)));
      return;
    } else {
      encode_pieces(Pieces(text.slice(begin, end)));
    }
  }
}

void TextEncoder::encode_pieces(Pieces pieces) {
  for (const auto& step : parts_.pre_tokenizers.steps) {
    step->split(pieces);
  }
  const BpeModel& model = *parts_.model;
  if (!full_) {
    for (const ByteRange piece : pieces.ranges()) {
      model.encode(pieces.text(piece), out_.ids);
    }
    return;
  }
  std::vector<uint32_t> lengths;
  for (const ByteRange piece : pieces.ranges()) {
    lengths.clear();
    size_t at = out_.ids.size();
    model.encode(pieces.text(piece), out_.ids, lengths);
    size_t begin = piece.begin;
    for (const uint32_t length : lengths) {
      out_.pieces.emplace_back(model.vocabulary().token(out_.ids[at++]));
      out_.offsets.push_back(pieces.origin(begin, begin + length));
      begin += length;
    }
  }
}

void TextEncoder::add_token(const AddedToken& token, std::string_view matched, ByteRange source) {
  out_.ids.push_back(token.id);
  if (full_) {
    out_.pieces.emplace_back(matched);
    out_.offsets.push_back(source);
  }
}

void trim_offsets(bool add_prefix_space, Encoding& encoding) {
  // The space of the byte alphabet stands for one byte, any other white space for itself.
  const auto space_width = [](char32_t code, size_t length) -> size_t {
    if (byte_of_character(code) == uint8_t{' '}) {
      return 1;
    }
    return CharClasses::get().is(code, kSpace) ? length : 0;
  };
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const std::string& piece = encoding.pieces[i];
    ByteRange& range = encoding.offsets[i];
    size_t leading_bytes = 0;
    size_t leading_count = 0;
    for (size_t pos = 0; pos < piece.size(); ++leading_count) {
      const size_t begin = pos;
      const char32_t code = next_code_point(piece, pos);
      const size_t width = space_width(code, pos - begin);
      if (width == 0) {
        break;
      }
      leading_bytes += width;
    }
    size_t trailing_bytes = 0;
    for (size_t end = piece.size(); end > 0;) {
      size_t begin = end - 1;
      while (begin > 0 && is_utf8_continuation(piece[begin])) {
        --begin;
      }
      size_t pos = begin;
      const size_t width = space_width(next_code_point(piece, pos), end - begin);
      if (width == 0) {
        break;
      }
      trailing_bytes += width;
      end = begin;
    }
    const bool first = i == 0 || range.begin == 0;
    if (first && add_prefix_space && leading_count == 1) {
      leading_bytes = 0;
    }
    range.begin = static_cast<uint32_t>(std::min<size_t>(range.begin + leading_bytes, range.end));
    if (range.end >= trailing_bytes) {
      range.end = static_cast<uint32_t>(std::max<size_t>(range.end - trailing_bytes, range.begin));
    }
  }
}

}  // namespace zonda::text
