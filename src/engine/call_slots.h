// Which slots a kernel call reads and writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan.h"

namespace zonda::engine {

inline bool reads_slot(const EmbeddingCall&, int32_t) { return false; }
inline bool reads_slot(const RmsNormCall& call, int32_t slot) { return call.x == slot; }
inline bool reads_slot(const LinearCall& call, int32_t slot) {
  return call.x == slot || call.residual == slot;
}
inline bool reads_slot(const RopeAppendCall& call, int32_t slot) { return call.qkv == slot; }
inline bool reads_slot(const AttentionCall& call, int32_t slot) { return call.qkv == slot; }
inline bool reads_slot(const AddCall& call, int32_t slot) {
  return call.a == slot || call.b == slot;
}
inline bool reads_slot(const GatedCall& call, int32_t slot) {
  return call.a == slot || call.b == slot;
}
inline bool reads_slot(const SelectCall& call, int32_t slot) { return call.x == slot; }

template <typename C>
bool writes_slot(const C& call, int32_t slot) {
  return call.y == slot;
}
inline bool writes_slot(const RopeAppendCall& call, int32_t slot) { return call.qkv == slot; }

}  // namespace zonda::engine
