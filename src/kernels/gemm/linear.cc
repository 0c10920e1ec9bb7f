// Which tactics exist for a format and an instruction set.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/linear.h"

#include <algorithm>
#include <vector>

#include "kernels/gemm/cpu/linear_kernel.h"
#include "kernels/gemm/reference/linear_reference.h"

namespace zonda::kernels {
namespace {

using device::CpuIsa;

constexpr LinearTactic kReference[] = {{"reference", 1, kManyTokens, run_linear_reference}};

constexpr int kLevels = static_cast<int>(CpuIsa::kAmx) + 1;
constexpr int kFormats = kNumWeightFormats;
using Tactics = std::vector<LinearTactic>;

TacticList list_for(const TacticTable& table, WeightFormat format) {
  const TacticList lists[kFormats] = {table.float32,  table.float16,
                                      table.bfloat16, table.int8,
                                      table.int4,     {}};  // fp8 is not packed for processors
  return lists[static_cast<int>(format)];
}

// What `level` offers, on top of what the level below does (`below`).
Tactics level_tactics(CpuIsa level, WeightFormat format, const Tactics& below) {
  static constexpr const TacticTable* kTables[kLevels] = {nullptr, &kAvx2Tactics, &kAvx512Tactics,
                                                          &kAvx512Bf16Tactics, &kAmxTactics};
  const TacticTable* table = kTables[static_cast<int>(level)];
  const TacticList own = table == nullptr ? TacticList{} : list_for(*table, format);
  if (own.count == 0) {
    return below;
  }
  Tactics tactics;
  // Integer tiles equal the dot products of AVX-512 and join them; every other level replaces the
  // one below.
  if (level == CpuIsa::kAmx && is_integer(format)) {
    for (LinearTactic tactic : below) {
      tactic.max_tokens = std::min(tactic.max_tokens, own.first->min_tokens - 1);
      tactics.push_back(tactic);
    }
  }
  tactics.insert(tactics.end(), own.first, own.first + own.count);
  return tactics;
}

class TacticRegistry {
 public:
  TacticRegistry() {
    for (int format = 0; format < kFormats; ++format) {
      Tactics below(std::begin(kReference), std::end(kReference));
      for (int level = 0; level < kLevels; ++level) {
        below = level_tactics(static_cast<CpuIsa>(level), static_cast<WeightFormat>(format), below);
        tactics_[level][format] = below;
      }
    }
  }

  std::span<const LinearTactic> tactics(CpuIsa level, WeightFormat format) const {
    return tactics_[static_cast<int>(level)][static_cast<int>(format)];
  }

 private:
  Tactics tactics_[kLevels][kFormats];
};

}  // namespace

std::span<const LinearTactic> linear_tactics(const WeightType& type, CpuIsa isa) {
  static const TacticRegistry registry;
  return registry.tactics(isa, type.format);
}

const LinearTactic& default_linear_tactic(const WeightType& type, CpuIsa isa, int64_t num_tokens) {
  const std::span<const LinearTactic> tactics = linear_tactics(type, isa);
  for (const LinearTactic& tactic : tactics) {
    if (num_tokens >= tactic.min_tokens && num_tokens <= tactic.max_tokens) {
      return tactic;
    }
  }
  return tactics.front();
}

}  // namespace zonda::kernels
