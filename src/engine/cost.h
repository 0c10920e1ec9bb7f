// Bytes and operations that a kernel call needs at least: the floor that plans, profiles and
// benchmarks compare with. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "engine/plan.h"
#include "kernels/probe/probe.h"

namespace zonda::engine {

// A step of one kind of sequences.
struct StepShape {
  int64_t tokens = 1;     // all tokens of the step
  int64_t sequences = 1;  // tokens are spread evenly over them
  int64_t selected = 1;   // tokens whose logits are wanted
  int64_t context = 0;    // positions before the first token of each sequence
};

enum class ArithmeticKind : uint8_t { kFloat32, kBFloat16, kInt8 };

// How a device computes: what its floors follow from.
struct CostRules {
  double activation_bytes = 4.0;  // of an element of a slot
  // Arithmetic of linears by the format of their weights, and of attention.
  ArithmeticKind float32 = ArithmeticKind::kFloat32;
  ArithmeticKind float16 = ArithmeticKind::kFloat32;
  ArithmeticKind bfloat16 = ArithmeticKind::kFloat32;
  ArithmeticKind integer = ArithmeticKind::kInt8;
  ArithmeticKind attention = ArithmeticKind::kFloat32;
};

struct CallCost {
  double bytes = 0.0;       // read and written once: weights, cache, activations that must move
  double operations = 0.0;  // multiply and add count one each
  ArithmeticKind arithmetic = ArithmeticKind::kFloat32;
};

CallCost call_cost(const EnginePlan& plan, const Call& call, const StepShape& shape,
                   const CostRules& rules);
// The larger of bytes over bandwidth and operations over the rate of their kind, in seconds.
double floor_seconds(const CallCost& cost, const kernels::MachineLimits& limits);

}  // namespace zonda::engine
