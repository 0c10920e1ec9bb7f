// Text to token ids and back.
// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "text/fault.h"
#include "text/stream_detokenizer.h"
#include "text/text_encoder.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

namespace zonda::text {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

// Calls use(valid UTF-8 text) and turns what it throws into an Error.
template <typename T, typename Use>
Result<T> with_valid_text(std::string_view text, Use use) {
  if (text.size() > kMaxTextBytes) {
    return over_capacity("[tokenizer] the text has {} bytes; the limit is {}.", text.size(),
                         kMaxTextBytes);
  }
  try {
    return is_valid_utf8(text) ? use(text) : use(to_valid_utf8(text));
  } catch (const Fault& fault) {
    return fault.error;
  }
}

AddedTokens::AllowSpecial everywhere(bool allowed) {
  return [allowed](ByteRange) { return allowed; };
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json,
                                                        std::string_view tokenizer_config_json) {
  try {
    return std::unique_ptr<Tokenizer>(
        new Tokenizer(Parts::parse(tokenizer_json, tokenizer_config_json)));
  } catch (const Fault& fault) {
    return fault.error;
  }
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::string& folder) {
  Result<std::string> tokenizer_json = read_file(folder + "/tokenizer.json");
  if (!tokenizer_json.ok()) {
    return tokenizer_json.error();
  }
  Result<std::string> config = read_file(folder + "/tokenizer_config.json");
  if (!config.ok() && config.error().code != ErrorCode::kNotFound) {
    return config.error();
  }
  return from_json(*tokenizer_json, config.ok() ? *config : std::string());
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  using Ids = std::vector<int32_t>;
  return with_valid_text<Ids>(text, [&](std::string_view valid) {
    const auto allow = everywhere(options.parse_special);
    Ids ids = TextEncoder(*parts_, valid, allow).ids();
    if (options.add_special_tokens) {
      Ids before;
      for (const FixedToken& token : parts_->post_processor.before) {
        before.push_back(token.id);
      }
      ids.insert(ids.begin(), before.begin(), before.end());
      for (const FixedToken& token : parts_->post_processor.after) {
        ids.push_back(token.id);
      }
    }
    return ids;
  });
}

Result<Encoding> Tokenizer::encode_with_offsets(std::string_view text,
                                                EncodeOptions options) const {
  return with_valid_text<Encoding>(text, [&](std::string_view valid) {
    const auto allow = everywhere(options.parse_special);
    Encoding body = TextEncoder(*parts_, valid, allow).encoding();
    if (!options.add_special_tokens) {
      return body;
    }
    Encoding all;
    const auto add_fixed = [&](const std::vector<FixedToken>& tokens) {
      for (const FixedToken& token : tokens) {
        all.ids.push_back(token.id);
        all.pieces.push_back(token.text);
        all.offsets.emplace_back();
      }
    };
    add_fixed(parts_->post_processor.before);
    all.ids.insert(all.ids.end(), body.ids.begin(), body.ids.end());
    all.pieces.insert(all.pieces.end(), body.pieces.begin(), body.pieces.end());
    all.offsets.insert(all.offsets.end(), body.offsets.begin(), body.offsets.end());
    add_fixed(parts_->post_processor.after);
    return all;
  });
}

Result<std::vector<int32_t>> Tokenizer::encode_segments(std::span<const Segment> segments) const {
  std::string text;
  std::vector<ByteRange> allowed;  // runs of template segments
  for (const Segment& segment : segments) {
    if (text.size() + segment.text.size() > kMaxTextBytes) {
      return over_capacity("[tokenizer] the prompt has more than {} bytes.", kMaxTextBytes);
    }
    const auto begin = static_cast<uint32_t>(text.size());
    text += to_valid_utf8(segment.text);
    const auto end = static_cast<uint32_t>(text.size());
    if (segment.from_template && begin != end) {
      if (!allowed.empty() && allowed.back().end == begin) {
        allowed.back().end = end;
      } else {
        allowed.push_back({begin, end});
      }
    }
  }
  const AddedTokens::AllowSpecial inside_template = [&](ByteRange match) {
    const auto after = std::upper_bound(
        allowed.begin(), allowed.end(), match.begin,
        [](uint32_t begin, const ByteRange& range) { return begin < range.begin; });
    return after != allowed.begin() && match.end <= std::prev(after)->end;
  };
  return with_valid_text<std::vector<int32_t>>(text, [&](std::string_view valid) {
    return TextEncoder(*parts_, valid, inside_template).ids();
  });
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  StreamDetokenizer stream(*this, skip_special_tokens);
  std::string text;
  for (const int32_t id : ids) {
    text += stream.push(id);
  }
  return text + stream.flush();
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return parts_->decoder.token_bytes(id);
}

std::optional<std::string_view> Tokenizer::token_text(int32_t id) const {
  if (const AddedToken* token = parts_->added.find(id); token != nullptr) {
    return token->content;
  }
  const TokenTable& vocabulary = parts_->model->vocabulary();
  return vocabulary.contains(id) ? std::optional(vocabulary.token(id)) : std::nullopt;
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  return parts_->token_to_id(token);
}

int32_t Tokenizer::vocab_size() const {
  int32_t end = parts_->model->vocabulary().id_end();
  for (const AddedToken& token : parts_->added.tokens()) {
    end = std::max(end, token.id + 1);
  }
  return end;
}

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* token = parts_->added.find(id);
  return token != nullptr && token->special;
}

const std::vector<int32_t>& Tokenizer::eos_token_ids() const { return parts_->eos_token_ids; }
std::optional<int32_t> Tokenizer::bos_token_id() const { return parts_->bos_token_id; }
const TokenDecoder& Tokenizer::decoder() const { return parts_->decoder; }

}  // namespace zonda::text
