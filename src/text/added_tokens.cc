// Tokens that are cut out of a text before the model sees it.
// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "text/char_classes.h"
#include "text/fault.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace zonda::text {
namespace {

// Start of the character before text[pos]; pos > 0.
size_t previous_character(std::string_view text, size_t pos) {
  do {
    --pos;
  } while (pos > 0 && is_utf8_continuation(text[pos]));
  return pos;
}

bool is_at(std::string_view text, size_t pos, CharClass wanted) {
  return CharClasses::get().is(next_code_point(text, pos), wanted);
}

bool is_single_word(std::string_view text, size_t begin, size_t end) {
  const bool free_left = begin == 0 || !is_at(text, previous_character(text, begin), kWord);
  const bool free_right = end == text.size() || !is_at(text, end, kWord);
  return free_left && free_right;
}

size_t skip_space_left(std::string_view text, size_t pos, size_t limit) {
  while (pos > limit) {
    const size_t before = previous_character(text, pos);
    if (!is_at(text, before, kSpace)) {
      break;
    }
    pos = before;
  }
  return std::max(pos, limit);
}

size_t skip_space_right(std::string_view text, size_t pos) {
  while (pos < text.size() && is_at(text, pos, kSpace)) {
    next_code_point(text, pos);
  }
  return pos;
}

AddedToken parse_token(const Json& json, size_t index) {
  Fields fields(json, fmt::format("added_tokens[{}]", index));
  AddedToken token;
  const int64_t id = fields.integer("id");
  if (id < 0 || id > TokenTable::kMaxId) {
    fields.fail("id", "an id from 0 to 16777215");
  }
  token.id = static_cast<int32_t>(id);
  token.content = fields.string("content");
  token.single_word = fields.boolean("single_word", false);
  token.lstrip = fields.boolean("lstrip", false);
  token.rstrip = fields.boolean("rstrip", false);
  token.special = fields.boolean("special", false);
  token.normalized = fields.boolean("normalized", !token.special);
  fields.finish();
  return token;
}

}  // namespace

AddedTokens AddedTokens::parse(const Json& json, const TokenTable& vocabulary,
                               const Normalizer* normalizer) {
  AddedTokens added;
  if (json.is_null()) {
    return added;
  }
  if (!json.is_array()) {
    throw Fault{corrupt("[tokenizer] added_tokens is not an array.")};
  }
  for (size_t i = 0; i < json.size(); ++i) {
    AddedToken token = parse_token(json[i], i);
    if (token.content.empty()) {
      log_warning("[tokenizer] added_tokens[{}] is empty and can never be met.", i);
      continue;
    }
    const int32_t known = vocabulary.find(token.content);
    if (known >= 0 && known != token.id) {
      log_warning("[tokenizer] added token \"{}\" has id {} in the vocabulary, not {}.",
                  token.content, known, token.id);
      token.id = known;
    }
    if ((known < 0 && vocabulary.contains(token.id)) || added.by_id_.contains(token.id) ||
        added.by_content_.contains(token.content)) {
      throw Fault{
          corrupt("[tokenizer] added_tokens[{}] \"{}\" with id {} clashes with another token.", i,
                  token.content, token.id)};
    }
    added.by_id_[token.id] = added.tokens_.size();
    added.by_content_[token.content] = added.tokens_.size();
    added.has_normalized_special_ |= token.normalized && token.special;
    added.tokens_.push_back(std::move(token));
  }
  for (size_t i = 0; i < added.tokens_.size(); ++i) {
    const AddedToken& token = added.tokens_[i];
    std::string key = token.content;
    if (token.normalized && normalizer != nullptr) {
      AlignedText text(key, {0, static_cast<uint32_t>(key.size())}, false);
      normalizer->apply(text);
      key = text.text();
    }
    if (!key.empty()) {
      (token.normalized ? added.normalized_ : added.plain_).insert(key, static_cast<int32_t>(i));
    }
  }
  return added;
}

void AddedTokens::Trie::insert(std::string_view key, int32_t token) {
  starts[static_cast<unsigned char>(key[0])] = true;
  uint32_t at = 0;
  for (const char byte : key) {
    auto& edges = nodes[at].edges;
    const auto edge = std::find_if(edges.begin(), edges.end(),
                                   [&](const auto& candidate) { return candidate.first == byte; });
    if (edge != edges.end()) {
      at = edge->second;
      continue;
    }
    const auto next = static_cast<uint32_t>(nodes.size());
    edges.emplace_back(byte, next);
    nodes.emplace_back();
    at = next;
  }
  if (nodes[at].token < 0) {
    nodes[at].token = token;
  }
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto it = by_content_.find(std::string(content));
  return it == by_content_.end() ? nullptr : &tokens_[it->second];
}

const AddedToken* AddedTokens::longest_at(const Trie& trie, std::string_view text, size_t pos,
                                          const AllowSpecial& allow_special, size_t& end) const {
  const AddedToken* longest = nullptr;
  uint32_t node = 0;
  for (size_t i = pos; i < text.size(); ++i) {
    const auto& edges = trie.nodes[node].edges;
    const auto edge = std::find_if(edges.begin(), edges.end(), [&](const auto& candidate) {
      return candidate.first == text[i];
    });
    if (edge == edges.end()) {
      break;
    }
    node = edge->second;
    if (trie.nodes[node].token < 0) {
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(trie.nodes[node].token)];
    const ByteRange range{static_cast<uint32_t>(pos), static_cast<uint32_t>(i + 1)};
    if (!token.special || allow_special(range)) {
      longest = &token;
      end = i + 1;
    }
  }
  return longest;
}

std::vector<AddedSection> AddedTokens::split(std::string_view text, bool normalized,
                                             const AllowSpecial& allow_special) const {
  const Trie& trie = normalized ? normalized_ : plain_;
  std::vector<AddedSection> sections;
  size_t done = 0;  // end of the last section
  const auto add = [&](size_t begin, size_t end, const AddedToken* token) {
    sections.push_back({{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, token});
  };
  for (size_t pos = 0; pos < text.size();) {
    size_t end = 0;
    const AddedToken* token = trie.starts[static_cast<unsigned char>(text[pos])]
                                  ? longest_at(trie, text, pos, allow_special, end)
                                  : nullptr;
    if (token == nullptr) {
      ++pos;
      continue;
    }
    size_t begin = pos;
    pos = end;
    if (token->single_word && !is_single_word(text, begin, end)) {
      continue;
    }
    if (token->lstrip) {
      begin = skip_space_left(text, begin, done);
    }
    if (token->rstrip) {
      end = skip_space_right(text, end);
      pos = end;  // what this token took along belongs to no other
    }
    if (done < begin) {
      add(done, begin, nullptr);
    }
    add(begin, end, token);
    done = end;
  }
  if (done < text.size()) {
    add(done, text.size(), nullptr);
  }
  return sections;
}

}  // namespace zonda::text
