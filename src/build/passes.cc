// The visible list of passes.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "build/pass.h"

namespace zonda::build {

std::span<const Pass> passes() {
  static constexpr std::array kPasses = {
      Pass{"merge_gated_linears",
           "One linear with a gated epilogue for gate, up and their product.", merge_gated_linears},
      Pass{"fuse_residual", "Adds the residual in the epilogue of the linear before it.",
           fuse_residual},
      Pass{"fuse_rope_append", "Rotates and appends to the cache in one pass over q, k and v.",
           fuse_rope_append},
      Pass{"hoist_select", "Normalises only the tokens whose logits are wanted.", hoist_select},
      Pass{"remove_dead_nodes", "Drops nodes whose value nobody reads.", remove_dead_nodes},
  };
  return kPasses;
}

}  // namespace zonda::build
