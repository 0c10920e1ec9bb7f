// Sums over sixteen lanes whatever the register width, so that every instruction set adds in one
// order. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace zonda::kernels {

// Element i of an array belongs to lane i mod 16; kRegisters registers of V hold the lanes in
// order.
template <class V>
struct Lanes16 {
  static constexpr int kLanes = 16;
  static constexpr int kRegisters = kLanes / V::kLanes;
  using F = typename V::F;

  F reg[kRegisters];

  static Lanes16 set1(float value) {
    Lanes16 lanes;
    for (F& r : lanes.reg) {
      r = V::set1(value);
    }
    return lanes;
  }

  // Lane j + lane j + 8 for j < 8, then + 4, + 2, + 1.
  float tree_sum() const { return V::tree_sum(reg); }
  // The largest lane; no lane may be NaN.
  float max() const { return V::tree_max(reg); }
};

}  // namespace zonda::kernels
