// What a Tokenizer is made of, and how it is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/tokenizer.h"

namespace zonda::text {

struct Tokenizer::Parts {
  std::unique_ptr<Normalizer> normalizer;  // null: none
  PreTokenizerChain pre_tokenizers;
  std::unique_ptr<BpeModel> model;
  AddedTokens added;
  PostProcessor post_processor;
  TokenDecoder decoder;
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;

  // Fault as Tokenizer::from_json.
  static std::unique_ptr<Parts> parse(std::string_view tokenizer_json,
                                      std::string_view tokenizer_config_json);

  std::optional<int32_t> token_to_id(std::string_view token) const;
};

}  // namespace zonda::text
