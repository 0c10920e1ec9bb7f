// The `BPE` model of tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "text/byte_alphabet.h"
#include "text/fault.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace zonda::text {
namespace {

// The two tokens of a merge, which is written as "a b" or ["a", "b"].
std::pair<std::string, std::string> merge_pair(const Json& merge, size_t index) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  throw Fault{corrupt("[tokenizer] model.merges[{}] is not a pair of tokens.", index)};
}

}  // namespace

std::unique_ptr<BpeModel> BpeModel::parse(const Json& json, bool after_byte_level) {
  Fields fields(json, "model");
  std::unique_ptr<BpeModel> model(new BpeModel);
  model->prefix_ = fields.optional_string("continuing_subword_prefix").value_or("");
  model->suffix_ = fields.optional_string("end_of_word_suffix").value_or("");
  model->fuse_unknown_ = fields.boolean("fuse_unk", false);
  model->ignore_merges_ = fields.boolean("ignore_merges", false);
  if (fields.has("dropout") && fields.value("dropout") != 0.0) {
    log_warning("[tokenizer] model.dropout {} is a training option and is not applied.",
                dump_json(fields.value("dropout")));
  }
  fields.ignore({"dropout"});
  model->read_vocabulary(fields.value("vocab"));
  model->read_merges(fields.array("merges"));
  if (fields.boolean("byte_fallback", false)) {
    for (int byte = 0; byte < 256; ++byte) {
      model->fallback_ids_.push_back(model->vocabulary_.find(fmt::format("<0x{:02X}>", byte)));
    }
  }
  const std::optional<std::string> unk_token = fields.optional_string("unk_token");
  fields.finish();
  if (after_byte_level && model->prefix_.empty() && model->suffix_.empty() &&
      model->fallback_ids_.empty()) {
    model->prepare_raw_bytes();
  }
  model->read_unknown(unk_token);
  model->whole_ =
      std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(model->vocabulary_.id_end()));
  return model;
}

void BpeModel::read_vocabulary(const Json& vocab) {
  if (!vocab.is_object()) {
    throw Fault{corrupt("[tokenizer] model.vocab is not an object.")};
  }
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > TokenTable::kMaxId) {
      throw Fault{corrupt("[tokenizer] model.vocab[\"{}\"] is not an id from 0 to {}.", token,
                          TokenTable::kMaxId)};
    }
    if (!vocabulary_.insert(id.get<int32_t>(), token)) {
      throw Fault{corrupt("[tokenizer] model.vocab gives id {} to two tokens, one is \"{}\".",
                          id.get<int32_t>(), token)};
    }
  }
}

void BpeModel::read_merges(const Json& merges) {
  merges_ = std::make_unique<BpeMerges>(merges.size());
  const auto id_of = [&](const std::string& token, size_t rank) {
    const int32_t id = vocabulary_.find(token);
    if (id < 0) {
      throw Fault{corrupt("[tokenizer] model.merges[{}] needs \"{}\", which is not in model.vocab.",
                          rank, token)};
    }
    return id;
  };
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = merge_pair(merges[rank], rank);
    const size_t skip = std::min(prefix_.size(), right.size());
    const int32_t left_id = id_of(left, rank);
    const int32_t right_id = id_of(right, rank);
    merges_->add(left_id, right_id, static_cast<uint32_t>(rank),
                 id_of(left + right.substr(skip), rank));
  }
}

void BpeModel::read_unknown(const std::optional<std::string>& unk_token) {
  const bool complete =
      raw_ && std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
  if (!unk_token.has_value() || complete) {
    return;
  }
  unknown_id_ = vocabulary_.find(*unk_token);
  if (unknown_id_ < 0) {
    throw Fault{corrupt("[tokenizer] model.unk_token \"{}\" is not in model.vocab.", *unk_token)};
  }
}

void BpeModel::prepare_raw_bytes() {
  for (const std::string& character : byte_alphabet()) {
    byte_ids_.push_back(vocabulary_.find(character));
  }
  for (int32_t id = 0; id < vocabulary_.id_end(); ++id) {
    if (!vocabulary_.contains(id)) {
      continue;
    }
    // A token with other characters can never be met in a mapped text.
    if (const auto bytes = alphabet_to_bytes(vocabulary_.token(id)); bytes.has_value()) {
      raw_vocabulary_.insert(id, *bytes);
    }
  }
  raw_ = true;
}

int32_t BpeModel::find_character(std::string_view character, bool first, bool last) const {
  if ((first || prefix_.empty()) && (!last || suffix_.empty())) {
    return vocabulary_.find(character);
  }
  std::string decorated = first ? "" : prefix_;
  decorated += character;
  return vocabulary_.find(last ? decorated + suffix_ : decorated);
}

void BpeModel::to_symbols(std::string_view piece, std::vector<int32_t>& symbols,
                          std::vector<uint32_t>* lengths) const {
  const auto add = [&](int32_t id, size_t length) {
    symbols.push_back(id);
    if (lengths != nullptr) {
      lengths->push_back(static_cast<uint32_t>(length));
    }
  };
  size_t unknown = 0;  // bytes of the pending unknown token
  const auto flush_unknown = [&] {
    if (unknown > 0) {
      add(unknown_id_, unknown);
      unknown = 0;
    }
  };
  for (size_t pos = 0; pos < piece.size();) {
    const auto lead = static_cast<unsigned char>(piece[pos]);
    const size_t length = raw_ ? 1 : utf8_length(lead);
    const std::string_view character = piece.substr(pos, length);
    const int32_t id =
        raw_ ? byte_ids_[lead] : find_character(character, pos == 0, pos + length == piece.size());
    pos += length;
    if (id >= 0) {
      flush_unknown();
      add(id, length);
      continue;
    }
    const auto fallback = [&](char byte) {
      return fallback_ids_[static_cast<unsigned char>(byte)];
    };
    if (!fallback_ids_.empty() &&
        std::all_of(character.begin(), character.end(), [&](char b) { return fallback(b) >= 0; })) {
      for (const char byte : character) {
        add(fallback(byte), 1);
      }
    } else if (unknown_id_ >= 0) {
      if (!fuse_unknown_) {
        flush_unknown();
      }
      unknown += length;
    }
  }
  flush_unknown();
}

void BpeModel::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  const uint64_t hash = hash_short(piece);
  const int32_t word = (raw_ ? raw_vocabulary_ : vocabulary_).find(piece, hash);
  if (word >= 0 && (ignore_merges_ || whole_[word].load(std::memory_order_relaxed))) {
    ids.push_back(word);
    return;
  }
  if (cache_.find(piece, hash, ids)) {
    return;
  }
  std::vector<int32_t> symbols;
  symbols.reserve(piece.size());
  to_symbols(piece, symbols, nullptr);
  merges_->apply(symbols, nullptr);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
  if (word >= 0 && symbols.size() == 1 && symbols[0] == word) {
    whole_[word].store(true, std::memory_order_relaxed);
  } else {
    cache_.store(piece, hash, symbols.data(), symbols.size());
  }
}

void BpeModel::encode(std::string_view piece, std::vector<int32_t>& ids,
                      std::vector<uint32_t>& lengths) const {
  const int32_t word = ignore_merges_ ? (raw_ ? raw_vocabulary_ : vocabulary_).find(piece) : -1;
  if (word >= 0) {
    ids.push_back(word);
    lengths.push_back(static_cast<uint32_t>(piece.size()));
    return;
  }
  std::vector<int32_t> symbols;
  std::vector<uint32_t> symbol_lengths;
  std::vector<uint32_t> sizes;
  to_symbols(piece, symbols, &symbol_lengths);
  merges_->apply(symbols, &sizes);
  size_t at = 0;
  for (size_t i = 0; i < symbols.size(); ++i) {
    uint32_t length = 0;
    for (uint32_t k = 0; k < sizes[i]; ++k) {
      length += symbol_lengths[at++];
    }
    ids.push_back(symbols[i]);
    lengths.push_back(length);
  }
}

}  // namespace zonda::text
