// The `BPE` model of tokenizer.json: ids of one piece of text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/bpe_cache.h"
#include "text/bpe_merges.h"
#include "text/token_table.h"

namespace zonda::text {

// Thread-safe once made.
class BpeModel {
 public:
  // `after_byte_level`: the pieces come from `ByteLevel`, so that the model may take their raw
  // bytes. Fault: kCorrupt for a vocabulary or merges that contradict themselves.
  static std::unique_ptr<BpeModel> parse(const Json& json, bool after_byte_level);

  // Pieces must hold raw bytes instead of characters of the byte alphabet.
  bool takes_raw_bytes() const { return raw_; }
  // The strings of the file.
  const TokenTable& vocabulary() const { return vocabulary_; }

  // Appends the ids of a piece.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;
  // The same, uncached, and the bytes of the piece that each id covers. Characters without an id
  // are left out, as in the reference; the ids after them then seem to lie further left.
  void encode(std::string_view piece, std::vector<int32_t>& ids,
              std::vector<uint32_t>& lengths) const;

 private:
  BpeModel() = default;
  void read_vocabulary(const Json& vocab);
  void read_merges(const Json& merges);
  void read_unknown(const std::optional<std::string>& unk_token);
  void prepare_raw_bytes();
  // Initial symbols of a piece; `lengths` (bytes each) may be null.
  void to_symbols(std::string_view piece, std::vector<int32_t>& symbols,
                  std::vector<uint32_t>* lengths) const;
  int32_t find_character(std::string_view character, bool first, bool last) const;

  TokenTable vocabulary_;
  TokenTable raw_vocabulary_;  // if raw_: the same ids by their bytes
  std::unique_ptr<BpeMerges> merges_;
  std::vector<int32_t> byte_ids_;      // [256] if raw_: id of each single byte, -1 if it has none
  std::vector<int32_t> fallback_ids_;  // [256] ids of <0x00>..<0xFF>, -1 if absent; empty: off
  std::string prefix_;                 // continuing_subword_prefix
  std::string suffix_;                 // end_of_word_suffix
  int32_t unknown_id_ = -1;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  bool raw_ = false;

  BpeCache cache_;
  // [id_end] the token's own string is known to encode to itself: most words are found this way.
  std::unique_ptr<std::atomic<bool>[]> whole_;
};

}  // namespace zonda::text
