// Transitions of a sequence: one overload for each legal state, and one that fails for the others.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/sequence.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "base/error.h"

namespace zonda::scheduler {
namespace {

const char* name_of(const Waiting&) { return "waiting"; }
const char* name_of(const Prefilling&) { return "prefilling"; }
const char* name_of(const Decoding&) { return "decoding"; }
const char* name_of(const Paused&) { return "paused"; }
const char* name_of(const Finished&) { return "finished"; }

[[noreturn]] void illegal(const char* event, const char* state) {
  check_failed(__FILE__, __LINE__,
               fmt::format("a {} sequence cannot take the event '{}'", state, event).c_str());
}

struct Admit {
  kvcache::KvSequence kv;
  SequenceState operator()(Waiting&&) { return Prefilling{std::move(kv)}; }
  SequenceState operator()(Paused&&) { return Prefilling{std::move(kv)}; }
  template <typename State>
  SequenceState operator()(State&& state) {
    illegal("admit", name_of(state));
  }
};

struct Decode {
  SequenceState operator()(Prefilling&& state) { return Decoding{std::move(state.kv)}; }
  template <typename State>
  SequenceState operator()(State&& state) {
    illegal("decode", name_of(state));
  }
};

struct Pause {
  SequenceState operator()(Prefilling&&) { return Paused{}; }
  SequenceState operator()(Decoding&&) { return Paused{}; }
  template <typename State>
  SequenceState operator()(State&& state) {
    illegal("pause", name_of(state));
  }
};

struct Finish {
  SequenceState operator()(Finished&& state) { illegal("finish", name_of(state)); }
  template <typename State>
  SequenceState operator()(State&&) {
    return Finished{};
  }
};

}  // namespace

const char* state_name(const SequenceState& state) {
  return std::visit([](const auto& now) { return name_of(now); }, state);
}

template <typename Event>
void Sequence::apply(Event&& event) {
  state_ = std::visit(std::forward<Event>(event), std::move(state_));
}

void Sequence::admit(kvcache::KvSequence kv) { apply(Admit{std::move(kv)}); }
void Sequence::decode() { apply(Decode{}); }
void Sequence::pause() { apply(Pause{}); }
void Sequence::finish() { apply(Finish{}); }

Sequence Sequence::fork(const kvcache::KvCacheManager& kv_cache) const {
  CHECK(is<Decoding>());
  Sequence copy(tokens_);
  copy.state_ = Decoding{kv_cache.fork(kv())};
  return copy;
}

kvcache::KvSequence& Sequence::kv() {
  return const_cast<kvcache::KvSequence&>(std::as_const(*this).kv());
}

const kvcache::KvSequence& Sequence::kv() const {
  if (const auto* prefilling = std::get_if<Prefilling>(&state_)) {
    return prefilling->kv;
  }
  const auto* decoding = std::get_if<Decoding>(&state_);
  CHECK(decoding != nullptr);
  return decoding->kv;
}

}  // namespace zonda::scheduler
