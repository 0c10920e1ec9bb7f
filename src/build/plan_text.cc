// SPDX-License-Identifier: Apache-2.0
#include "build/plan_text.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "engine/step_times.h"

namespace zonda::build {
namespace {

constexpr int64_t kDecodeContext = 127;
constexpr int64_t kPrefillTokens = 128;
constexpr int64_t kRepeats = 3;

std::string tactics_of(const engine::Call& call) {
  const auto* linear = std::get_if<engine::LinearCall>(&call);
  if (linear == nullptr) {
    return "-";
  }
  std::string text;
  for (size_t i = 0; i < linear->tactics.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : "|", linear->tactics[i]);
  }
  return text;
}

std::string header(const engine::EnginePlan& plan) {
  int64_t bytes = 0;
  for (const engine::PlanMatrix& matrix : plan.matrices) {
    bytes += matrix.bytes;
  }
  return fmt::format(
      "device        {}\nweights       {} matrices, {} bytes packed\nkv block      {} tokens, {} "
      "bytes ({})\n"
      "limits        max_batch_size {}, max_input_len {}, max_seq_len {}, max_num_tokens {}\n"
      "token buckets 1, 2-8, 9-16, 17-32, 33-64, 65-256, 257-1024, more (tactics are listed in "
      "this order)\n",
      plan.device_fingerprint, plan.matrices.size(), bytes, plan.kv.tokens_per_block,
      plan.kv.block_bytes(), dtype_name(plan.kv.dtype), plan.limits.max_batch_size,
      plan.limits.max_input_len, plan.limits.max_seq_len, plan.limits.max_num_tokens);
}

// One step as a table; `seconds` by call or null.
std::string step_table(const engine::EnginePlan& plan, const engine::StepShape& shape,
                       const std::vector<double>* seconds, const kernels::MachineLimits* limits,
                       const engine::CostRules& rules) {
  std::string text =
      fmt::format("{:<34} {:<12} {:>12} {:>14} {:>10} {:>10} {:>6}  {}\n", "call", "kernel",
                  "bytes", "operations", "floor us", "time us", "of it", "tactics");
  double floor_sum = 0.0;
  double time_sum = 0.0;
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    const engine::Call& call = plan.calls[i].call;
    const engine::CallCost cost = engine::call_cost(plan, call, shape, rules);
    std::string figures = fmt::format("{:>10} {:>10} {:>6}", "-", "-", "-");
    if (seconds != nullptr) {
      const double floor = engine::floor_seconds(cost, *limits);
      const double time = (*seconds)[i];
      floor_sum += floor;
      time_sum += time;
      figures = fmt::format("{:>10.2f} {:>10.2f} {:>5.0f}%", floor * 1e6, time * 1e6,
                            time > 0.0 ? 100.0 * floor / time : 0.0);
    }
    text += fmt::format("{:<34} {:<12} {:>12.0f} {:>14.0f} {}  {}\n", plan.calls[i].name,
                        engine::call_name(call), cost.bytes, cost.operations, figures,
                        tactics_of(call));
  }
  if (seconds != nullptr) {
    text += fmt::format("{:<34} {:<12} {:>12} {:>14} {:>10.2f} {:>10.2f} {:>5.0f}%\n", "sum", "",
                        "", "", floor_sum * 1e6, time_sum * 1e6,
                        time_sum > 0.0 ? 100.0 * floor_sum / time_sum : 0.0);
  }
  return text;
}

}  // namespace

Result<PlanMeasurement> measure_plan(const std::string& folder, const engine::KvLayout& kv,
                                     int32_t threads) {
  PlanMeasurement out;
  engine::EngineOptions options;
  options.threads = threads;
  options.verify_checksums = false;  // written a moment ago
  options.kv_cache_bytes = kv.block_bytes() * (kPrefillTokens / kv.tokens_per_block + 2);
  Result<std::unique_ptr<engine::Engine>> engine = engine::Engine::load(folder, options);
  if (!engine.ok()) {
    return engine.error();
  }
  Result<kernels::MachineLimits> limits = (*engine)->measure_limits();
  if (!limits.ok()) {
    return limits.error();
  }
  out.limits = *limits;
  const engine::EnginePlan& plan = (*engine)->plan();
  const int64_t available = std::min<int64_t>(
      {plan.limits.max_seq_len, plan.limits.max_num_tokens + 1,
       int64_t{(*engine)->num_kv_blocks()} * plan.kv.tokens_per_block, kPrefillTokens + 1});
  const int64_t prompt = std::max<int64_t>(available - 1, 1);
  std::vector<int32_t> tokens(static_cast<size_t>(prompt));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(static_cast<int64_t>(i * 7919) % plan.vocab_size);
  }
  std::vector<int32_t> blocks(
      static_cast<size_t>((prompt + plan.kv.tokens_per_block) / plan.kv.tokens_per_block));
  std::iota(blocks.begin(), blocks.end(), 0);
  engine::SequenceInput sequence{static_cast<int32_t>(prompt), 0, blocks.data(),
                                 static_cast<int32_t>(prompt)};
  std::vector<int32_t> wanted = {static_cast<int32_t>(prompt) - 1};
  Result<engine::StepTimes> prefill =
      engine::time_step(**engine, {tokens, {&sequence, 1}, wanted}, kRepeats);
  if (!prefill.ok()) {
    return prefill.error();
  }
  out.prefill_seconds = std::move(prefill->calls);
  out.prefill = {prompt, 1, 1, 0};
  const int64_t context = std::min(kDecodeContext, prompt - 1);
  sequence = {1, static_cast<int32_t>(context), blocks.data(), static_cast<int32_t>(context)};
  wanted = {0};
  Result<engine::StepTimes> decode = engine::time_step(
      **engine, {std::span<const int32_t>(tokens).first(1), {&sequence, 1}, wanted}, kRepeats);
  if (!decode.ok()) {
    return decode.error();
  }
  out.decode_seconds = std::move(decode->calls);
  out.decode = {1, 1, 1, context};
  return out;
}

std::string plan_text(const engine::EnginePlan& plan, const PlanMeasurement* measurement,
                      const engine::CostRules& rules) {
  std::string text = header(plan);
  if (measurement == nullptr) {
    return text + "\nnot measured (tactics by default)\n\ndecode, 1 token\n" +
           step_table(plan, {1, 1, 1, kDecodeContext}, nullptr, nullptr, rules);
  }
  const kernels::MachineLimits& limits = measurement->limits;
  text += fmt::format(
      "limits here   read {:.1f} GB/s ({} streams a thread), fp32 {:.1f} GFLOP/s, int8 {:.1f} "
      "GOP/s, bf16 {:.1f} "
      "GFLOP/s, {} threads\n",
      limits.read_bytes_per_s * 1e-9, limits.streams, limits.fp32_flops * 1e-9,
      limits.int8_ops * 1e-9, limits.bf16_flops * 1e-9, limits.threads);
  text += fmt::format("\ndecode, 1 token at context {}\n", measurement->decode.context);
  text += step_table(plan, measurement->decode, &measurement->decode_seconds, &limits, rules);
  text += fmt::format("\nprefill, {} tokens\n", measurement->prefill.tokens);
  text += step_table(plan, measurement->prefill, &measurement->prefill_seconds, &limits, rules);
  return text;
}

}  // namespace zonda::build
