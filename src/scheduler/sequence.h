// One sequence of a request: its tokens and the state that owns its blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "kvcache/kv_cache_manager.h"

namespace zonda::scheduler {

// Never admitted; holds nothing.
struct Waiting {};
// The prompt, or after a pause the whole past, is being computed.
struct Prefilling {
  kvcache::KvSequence kv;
};
// All but the newest tokens are computed.
struct Decoding {
  kvcache::KvSequence kv;
};
// Gave its blocks away; tokens are kept and computed again.
struct Paused {};
struct Finished {};

using SequenceState = std::variant<Waiting, Prefilling, Decoding, Paused, Finished>;
const char* state_name(const SequenceState& state);

// Legal transitions; any other is a fault and aborts with both names:
//   admit   Waiting | Paused -> Prefilling      pause   Prefilling | Decoding -> Paused
//   decode  Prefilling -> Decoding              finish  all but Finished -> Finished
class Sequence {
 public:
  explicit Sequence(std::vector<int32_t> prompt) : tokens_(std::move(prompt)) {}

  void admit(kvcache::KvSequence kv);
  void decode();
  void pause();
  void finish();
  // A sequence with the same past; this one must be Decoding.
  Sequence fork(const kvcache::KvCacheManager& kv_cache) const;

  template <typename State>
  bool is() const {
    return std::holds_alternative<State>(state_);
  }
  bool holds_blocks() const { return is<Prefilling>() || is<Decoding>(); }
  // Prefilling or Decoding only.
  kvcache::KvSequence& kv();
  const kvcache::KvSequence& kv() const;

  std::span<const int32_t> tokens() const { return tokens_; }
  int32_t num_tokens() const { return static_cast<int32_t>(tokens_.size()); }
  void append(std::span<const int32_t> tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  // Part of a plan whose result is not in yet: blocks and tokens stay as they are.
  bool in_flight = false;

 private:
  template <typename Event>
  void apply(Event&& event);

  std::vector<int32_t> tokens_;  // prompt and output
  SequenceState state_;
};

}  // namespace zonda::scheduler
