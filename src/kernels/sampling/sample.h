// Choosing a token from a row of logits: changes, filters, the draw and log-probabilities, without
// sorting the vocabulary. Pure functions: equal input, equal output, on any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/cpu_features.h"
#include "zonda/error.h"

namespace zonda::kernels {

// How often a token occurred in the sequence.
struct TokenCount {
  int32_t token = 0;
  int32_t generated = 0;   // times in the output so far
  bool in_prompt = false;  // occurs in the prompt
};

struct TokenBias {
  int32_t token = 0;
  float bias = 0.0f;
};

// All token ids lie in [0, vocabulary).
struct LogitChanges {
  std::span<const TokenBias> bias = {};
  std::span<const TokenCount> counts = {};  // each token at most once
  std::span<const int32_t> banned = {};
  float repetition_penalty = 1.0f;  // tokens of prompt and output: divides a positive logit,
                                    // multiplies a negative one
  float presence_penalty = 0.0f;    // subtracted once for a token of the output
  float frequency_penalty = 0.0f;   // subtracted for each time it is in the output
};

// In this order: bias, repetition, presence and frequency penalties, bans (to -infinity).
void apply_logit_changes(const LogitChanges& changes, std::span<float> logits);

// Buffers that calls reuse; one for each thread that samples.
struct SampleScratch {
  std::vector<float> block_max;
  std::vector<float> block_sum;
  std::vector<float> threshold;
  std::vector<float> weights;
  std::vector<int32_t> ids;
};

// The first of the largest logits. kInternal if a logit is NaN or +infinity (the message names the
// first one), kInvalidArgument if all are -infinity.
Result<int32_t> greedy_token(std::span<const float> logits, SampleScratch& scratch,
                             device::CpuIsa isa = device::detect_cpu_isa());

// Applied in this order; each filter works on what the ones before it left, renormalised:
struct DrawParams {
  float temperature = 1.0f;  // > 0; divides the logits
  float min_p = 0.0f;        // keeps tokens at least min_p times as likely as the likeliest; 0: off
  int32_t top_k = 0;         // keeps the k likeliest, of equal ones the lower ids; 0: off
  float top_p = 1.0f;        // keeps the fewest likeliest tokens that reach top_p; 0 and 1: off
  double uniform = 0.0;      // in [0, 1): the same value draws the same token
};

// Errors as greedy_token.
Result<int32_t> draw_token(const DrawParams& params, std::span<const float> logits,
                           SampleScratch& scratch, device::CpuIsa isa = device::detect_cpu_isa());

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;
};

struct RowLogprobs {
  float chosen = 0.0f;            // of the asked token
  int32_t rank = 0;               // of the asked token: 1 + how many logits are larger
  std::vector<TokenLogprob> top;  // the likeliest first, of equal ones the lower ids
};

// Log-softmax of the row: pass the model's own logits, before apply_logit_changes, to report what
// the model said. `top_n` is cut to the vocabulary. Errors as greedy_token.
Result<RowLogprobs> row_logprobs(std::span<const float> logits, int32_t chosen, int32_t top_n,
                                 SampleScratch& scratch,
                                 device::CpuIsa isa = device::detect_cpu_isa());

// A number in [0, 1) with 53 random bits, a function of its arguments alone (two rounds of
// SplitMix64's mixing): draw `counter` of the stream `seed`.
double uniform(uint64_t seed, uint64_t counter);

}  // namespace zonda::kernels
