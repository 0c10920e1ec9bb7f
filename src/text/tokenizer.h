// Text to token ids and back, exactly as a model's tokenizer.json says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned_text.h"
#include "text/segment.h"
#include "zonda/error.h"

namespace zonda::text {

class TokenDecoder;

struct EncodeOptions {
  bool add_special_tokens = false;  // the tokens that the post-processor puts around a text
  bool parse_special = false;       // text that spells a special token becomes that token
};

// Parallel lists, one entry a token.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<std::string> pieces;  // as the vocabulary writes them
  std::vector<ByteRange> offsets;   // bytes of the given text, widened to whole characters;
                                    // {0, 0} for tokens that add_special_tokens put there
};

// Immutable: all functions may be called by many threads at once.
class Tokenizer {
 public:
  struct Parts;  // internal: text/tokenizer_parts.h

  // Contents of the files of a model folder; `tokenizer_config_json` may be empty.
  // kCorrupt for a malformed file, kUnsupported naming the component for what this build cannot do.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view tokenizer_json,
                                                      std::string_view tokenizer_config_json);
  // Reads tokenizer.json and, if it exists, tokenizer_config.json of the folder.
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& folder);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Invalid UTF-8 is replaced by U+FFFD first; offsets then refer to the replaced text.
  // kCapacity: more than 1 GiB of text, or a regular expression of the tokenizer that exceeds its
  // backtracking limit on it.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;
  Result<Encoding> encode_with_offsets(std::string_view text, EncodeOptions options = {}) const;

  // The ids of the concatenated segments. A special token is only recognised where template
  // segments alone spell it: input that spells a control token is plain text. No token is added
  // around the text, which the template owns from its first token on. For input without control
  // tokens the result equals encode(concatenation, {.parse_special = true}).
  Result<std::vector<int32_t>> encode_segments(std::span<const Segment> segments) const;

  // Valid UTF-8: invalid bytes become U+FFFD, one for each maximal invalid part, and so does an id
  // that no token has.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // The bytes that a token adds inside a text, perhaps not UTF-8 by themselves; empty if no token
  // has the id. Valid as long as the tokenizer.
  std::string_view token_bytes(int32_t id) const;
  // The token as the vocabulary writes it; nullopt if no token has the id.
  std::optional<std::string_view> token_text(int32_t id) const;
  std::optional<int32_t> token_to_id(std::string_view token) const;
  // One more than the largest id; ids may have gaps.
  int32_t vocab_size() const;
  // Whether decode() skips the token.
  bool is_special(int32_t id) const;
  // eos_token of tokenizer_config.json: empty or one id.
  const std::vector<int32_t>& eos_token_ids() const;
  std::optional<int32_t> bos_token_id() const;

  // For StreamDetokenizer.
  const TokenDecoder& decoder() const;

 private:
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace zonda::text
