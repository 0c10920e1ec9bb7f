// Decoders of tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#include "text/token_decoder.h"

#include <charconv>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/fault.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace zonda::text {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t done = 0;
  for (size_t pos = text.find(from); pos != std::string_view::npos; pos = text.find(from, done)) {
    out += text.substr(done, pos - done);
    out += to;
    done = pos + from.size();
  }
  out += text.substr(done);
  return out;
}

// The byte that a token such as <0x0A> stands for.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') {
    return std::nullopt;
  }
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) {
    return std::nullopt;
  }
  return static_cast<char>(byte);
}

void strip_token(std::string& token, std::string_view character, size_t start, size_t stop) {
  for (size_t i = 0; i < start && token.starts_with(character); ++i) {
    token.erase(0, character.size());
  }
  for (size_t i = 0; i < stop && token.ends_with(character); ++i) {
    token.resize(token.size() - character.size());
  }
}

std::string read_character(Fields& fields, const char* name) {
  std::string character = fields.string(name);
  if (count_code_points(character) != 1) {
    fields.fail(name, "one character");
  }
  return character;
}

size_t read_count(Fields& fields, const char* name) {
  const int64_t count = fields.integer(name);
  if (count < 0 || count > 1024) {
    fields.fail(name, "a count from 0 to 1024");
  }
  return static_cast<size_t>(count);
}

}  // namespace

TokenDecoder TokenDecoder::parse(const Json& json, const TokenTable& vocabulary,
                                 const AddedTokens& added) {
  TokenDecoder decoder;
  if (json.is_null()) {
    decoder.join_with_space_ = true;
  } else {
    decoder.read_component(json);
  }
  int32_t id_end = vocabulary.id_end();
  for (const AddedToken& token : added.tokens()) {
    id_end = std::max(id_end, token.id + 1);
  }
  const auto fill = [&](Outputs& outputs, bool first) {
    outputs.resize(static_cast<size_t>(id_end));
    for (int32_t id = 0; id < vocabulary.id_end(); ++id) {
      if (vocabulary.contains(id)) {
        outputs[id] = decoder.run_steps(std::string(vocabulary.token(id)), true, first);
      }
    }
    for (const AddedToken& token : added.tokens()) {
      if (!vocabulary.contains(token.id)) {
        outputs[token.id] = decoder.run_steps(token.content, false, first);
      }
    }
  };
  fill(decoder.outputs_, false);
  if (decoder.first_differs_) {
    fill(decoder.first_outputs_, true);
  }
  return decoder;
}

void TokenDecoder::read_component(const Json& json) {
  const std::string type = component_type(json, "decoder");
  Fields fields(json, "decoder." + type);
  if (type == "Sequence") {
    for (const Json& step : fields.array("decoders")) {
      read_component(step);
    }
    fields.finish();
    return;
  }
  if (fused_ && type != "Strip" && type != "Fuse") {
    throw Fault{
        unsupported("[tokenizer] decoder \"{}\" after \"Fuse\" or \"ByteLevel\" is not "
                    "supported.",
                    type)};
  }
  if (type == "Fuse") {
    fused_ = true;
  } else if (type == "ByteLevel") {
    fields.ignore({"add_prefix_space", "trim_offsets", "use_regex"});  // no part in decoding
    steps_.push_back({.kind = Step::Kind::kByteLevel});
    fused_ = true;
  } else if (type == "ByteFallback") {
    steps_.push_back({.kind = Step::Kind::kByteFallback});
  } else if (type == "Replace") {
    Pattern pattern = Pattern::parse(fields.value("pattern"), fields.where());
    steps_.push_back({.kind = Step::Kind::kReplace,
                      .pattern = std::move(pattern),
                      .text = fields.string("content")});
  } else if (type == "Metaspace") {
    fields.ignore({"split", "str_rep"});
    const bool never = fields.optional_string("prepend_scheme").value_or("always") == "never" ||
                       !fields.boolean("add_prefix_space", true);
    first_differs_ |= !never;
    steps_.push_back({.kind = Step::Kind::kMetaspace,
                      .text = read_character(fields, "replacement"),
                      .drop_first = !never});
  } else if (type == "Strip" && fused_) {
    if (!strip_.empty()) {
      throw Fault{unsupported(
          "[tokenizer] a second decoder \"Strip\" of the whole text is not supported.")};
    }
    strip_ = read_character(fields, "content");
    strip_left_ = read_count(fields, "start");
    strip_right_ = read_count(fields, "stop");
  } else if (type == "Strip") {
    Step step{.kind = Step::Kind::kStrip, .text = read_character(fields, "content")};
    step.start = read_count(fields, "start");
    step.stop = read_count(fields, "stop");
    steps_.push_back(std::move(step));
  } else {
    throw_unsupported_component("decoder", type);
  }
  fields.finish();
}

std::string TokenDecoder::run_steps(std::string token, bool in_vocabulary, bool first) const {
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::kReplace: {
        std::vector<ByteRange> matches;
        step.pattern.find(token, 0, matches);
        AlignedText text(token, {0, static_cast<uint32_t>(token.size())}, false);
        text.replace(matches, step.text);
        token = text.text();
        break;
      }
      case Step::Kind::kByteFallback:
        if (const std::optional<char> byte = fallback_byte(token); byte.has_value()) {
          return std::string(1, *byte);
        }
        break;
      case Step::Kind::kByteLevel:
        // An added token is written as it reads, not in the byte alphabet.
        if (in_vocabulary) {
          token = alphabet_to_bytes(token).value_or(token);
        }
        break;
      case Step::Kind::kMetaspace:
        token = replace_all(token, step.text, first && step.drop_first ? "" : " ");
        break;
      case Step::Kind::kStrip:
        strip_token(token, step.text, step.start, step.stop);
        break;
    }
  }
  return token;
}

std::string_view TokenDecoder::token_bytes(int32_t id) const {
  const bool known =
      id >= 0 && static_cast<size_t>(id) < outputs_.size() && outputs_[id].has_value();
  return known ? std::string_view(*outputs_[id]) : std::string_view();
}

void TokenDecoder::strip_left(State& state) const {
  while (state.at_start) {
    if (state.stripped_left < strip_left_ && state.held.starts_with(strip_)) {
      state.held.erase(0, strip_.size());
      ++state.stripped_left;
    } else {
      const bool undecided = state.stripped_left < strip_left_ && strip_.starts_with(state.held);
      state.at_start = undecided;
      return;
    }
  }
}

void TokenDecoder::feed(State& state, int32_t id, std::string& out) const {
  std::string& to = strip_.empty() ? out : state.held;
  if (join_with_space_ && !state.first) {
    to += ' ';
  }
  const Outputs& outputs = state.first && first_differs_ ? first_outputs_ : outputs_;
  const bool known = id >= 0 && static_cast<size_t>(id) < outputs.size() && outputs[id].has_value();
  to += known ? std::string_view(*outputs[id]) : kReplacementUtf8;
  state.first = false;
  if (strip_.empty()) {
    return;
  }
  strip_left(state);
  if (state.at_start) {
    return;
  }
  // The last strip_right_ characters may be the last of the text; so may the start of another one.
  std::string_view text = state.held;
  for (size_t partial = std::min(strip_.size() - 1, text.size()); partial > 0; --partial) {
    if (strip_right_ > 0 && text.ends_with(strip_.substr(0, partial))) {
      text.remove_suffix(partial);
      break;
    }
  }
  for (size_t i = 0; i < strip_right_ && text.ends_with(strip_); ++i) {
    text.remove_suffix(strip_.size());
  }
  out += text;
  state.held.erase(0, text.size());
}

void TokenDecoder::finish(State& state, std::string& out) const {
  for (size_t i = 0; i < strip_right_ && state.held.ends_with(strip_); ++i) {
    state.held.resize(state.held.size() - strip_.size());
  }
  out += state.held;
  state.held.clear();
}

}  // namespace zonda::text
