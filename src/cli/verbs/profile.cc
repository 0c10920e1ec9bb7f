// `zonda profile`: the time of each kernel of a prefill and a decode step beside its floor.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>

#include "api/prepare.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "engine/cost.h"
#include "engine/engine.h"
#include "engine/step_times.h"
#include "runtime/engine_info.h"

namespace zonda::cli {
namespace {

constexpr Option kRows[] = {
    {.name = "json", .help = "As one JSON object."},
    {.name = "prefill_tokens",
     .type = OptionType::kInteger,
     .value = "N",
     .help = "Tokens of the prompt in the prefill step.",
     .default_text = "512",
     .least = 1},
    {.name = "context",
     .type = OptionType::kInteger,
     .value = "N",
     .help = "Tokens in the cache before the decode step.",
     .default_text = "512",
     .least = 1},
    {.name = "batch_size",
     .type = OptionType::kInteger,
     .value = "N",
     .help = "Sequences of the decode step.",
     .default_text = "1",
     .least = 1},
    {.name = "repeats",
     .type = OptionType::kInteger,
     .value = "N",
     .help = "Measured runs of each step, after one to warm up: the fastest and the median step, "
             "and the "
             "median of each call.",
     .default_text = "10",
     .least = 1},
    {.name = "per_layer", .help = "A row for each kernel call instead of one for all layers."},
    {.name = "threads",
     .type = OptionType::kInteger,
     .value = "N",
     .help = "Threads; not given: one for each processor this process may use.",
     .least = 1,
     .most = 4096},
    {.name = "cache_dir",
     .type = OptionType::kText,
     .value = "FOLDER",
     .help = "Where an engine made on the way is kept."},
};

// A step of equal sequences, ready to run.
struct Step {
  engine::StepShape shape;
  std::vector<int32_t> tokens;
  std::vector<int32_t> blocks;  // [sequences, blocks of one]
  std::vector<engine::SequenceInput> sequences;
  std::vector<int32_t> logits_rows;
  std::vector<kernels::TokenChoice> choices;  // greedy: no logits cross to the host
};

struct Row {
  std::string name;
  std::string kernel;
  std::string tactic;
  int64_t calls = 0;
  double seconds = 0.0;
  double floor = 0.0;
  double bytes = 0.0;
  double operations = 0.0;
};

int64_t blocks_for(int64_t positions, int64_t tokens_per_block) {
  return (positions + tokens_per_block - 1) / tokens_per_block;
}

Step make_step(const engine::EnginePlan& plan, int64_t sequences, int64_t tokens_each,
               int64_t context) {
  Step step;
  step.shape = {sequences * tokens_each, sequences, sequences, context};
  const int64_t blocks = blocks_for(context + tokens_each, plan.kv.tokens_per_block);
  step.blocks.resize(static_cast<size_t>(sequences * blocks));
  std::iota(step.blocks.begin(), step.blocks.end(), 0);
  for (int64_t s = 0; s < sequences; ++s) {
    step.sequences.push_back({static_cast<int32_t>(tokens_each), static_cast<int32_t>(context),
                              step.blocks.data() + s * blocks,
                              static_cast<int32_t>(std::max<int64_t>(context, tokens_each))});
    step.logits_rows.push_back(static_cast<int32_t>((s + 1) * tokens_each - 1));
    step.choices.emplace_back().mode = kernels::ChoiceMode::kGreedy;
  }
  constexpr int64_t kSpread = 7919;  // any tokens, not all the same
  for (int64_t i = 0; i < sequences * tokens_each; ++i) {
    step.tokens.push_back(static_cast<int32_t>(i * kSpread % plan.vocab_size));
  }
  return step;
}

Result<engine::StepTimes> time_of(engine::Engine& engine, const Step& step, int64_t repeats) {
  return engine::time_step(engine, {step.tokens, step.sequences, step.logits_rows, step.choices},
                           repeats);
}

// "layers.3.mlp.fc" -> "layers.*.mlp.fc".
std::string layer_free(const std::string& name) {
  std::string result;
  for (const char c : name) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
      result += c;
    } else if (result.empty() || result.back() != '*') {
      result += '*';
    }
  }
  return result;
}

std::string tactic_of(const engine::Call& call, int64_t tokens) {
  const auto* linear = std::get_if<engine::LinearCall>(&call);
  return linear == nullptr ? std::string("-")
                           : linear->tactics[static_cast<size_t>(engine::token_bucket(tokens))];
}

std::vector<Row> make_rows(const engine::Engine& engine, const Step& step,
                           const engine::StepTimes& times, const kernels::MachineLimits& limits,
                           bool per_layer) {
  std::vector<Row> rows;
  std::map<std::string, size_t> row_of;
  const engine::EnginePlan& plan = engine.plan();
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    const engine::PlanCall& call = plan.calls[i];
    const bool selected_rows = call.name.find("head") != std::string::npos;
    const std::string tactic =
        tactic_of(call.call, selected_rows ? step.shape.selected : step.shape.tokens);
    const std::string name = per_layer ? call.name : layer_free(call.name);
    const std::string key = name + "\n" + engine::call_name(call.call) + "\n" + tactic;
    const auto [found, is_new] = row_of.try_emplace(key, rows.size());
    if (is_new) {
      rows.push_back({name, engine::call_name(call.call), tactic});
    }
    Row& row = rows[found->second];
    const engine::CallCost cost =
        engine::call_cost(plan, call.call, step.shape, engine.device().cost);
    ++row.calls;
    row.seconds += times.calls[i];
    row.floor += engine::floor_seconds(cost, limits);
    row.bytes += cost.bytes;
    row.operations += cost.operations;
  }
  return rows;
}

Row sum_of(const std::vector<Row>& rows) {
  Row sum{"sum", "", ""};
  for (const Row& row : rows) {
    sum.calls += row.calls;
    sum.seconds += row.seconds;
    sum.floor += row.floor;
    sum.bytes += row.bytes;
    sum.operations += row.operations;
  }
  return sum;
}

double fraction(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

void print_step(std::string_view title, const Step& step, const std::vector<Row>& rows,
                const engine::StepTimes& times) {
  print("{}: {} tokens of {} sequences after {} positions, {:.3f} ms, {:.1f} tok/s\n", title,
        step.shape.tokens, step.shape.sequences, step.shape.context, times.fastest * 1e3,
        static_cast<double>(step.shape.tokens) / times.fastest);
  TextTable table(
      {"call", "kernel", "tactic", "calls", "MB", "MOP", "time us", "floor us", "of it", "share"});
  const Row sum = sum_of(rows);
  const auto add = [&](const Row& row) {
    table.add({row.name, row.kernel, row.tactic, std::to_string(row.calls),
               fmt::format("{:.3f}", row.bytes / 1e6), fmt::format("{:.2f}", row.operations / 1e6),
               fmt::format("{:.1f}", row.seconds * 1e6), fmt::format("{:.1f}", row.floor * 1e6),
               fmt::format("{:.0f} %", 100.0 * fraction(row.floor, row.seconds)),
               fmt::format("{:.1f} %", 100.0 * fraction(row.seconds, sum.seconds))});
  };
  for (const Row& row : rows) {
    add(row);
  }
  add(sum);
  table.add({"outside of calls", "", "", "", "", "",
             fmt::format("{:.1f}", (times.median - sum.seconds) * 1e6), "", "", ""});
  table.add(
      {"step (median)", "", "", "", "", "", fmt::format("{:.1f}", times.median * 1e6), "", "", ""});
  print("{}\n", table.text());
}

OrderedJson step_json(const Step& step, const std::vector<Row>& rows,
                      const engine::StepTimes& times) {
  const Row sum = sum_of(rows);
  OrderedJson kernels = OrderedJson::array();
  for (const Row& row : rows) {
    kernels.push_back({{"call", row.name},
                       {"kernel", row.kernel},
                       {"tactic", row.tactic},
                       {"calls", row.calls},
                       {"bytes", row.bytes},
                       {"operations", row.operations},
                       {"time_us", row.seconds * 1e6},
                       {"floor_us", row.floor * 1e6},
                       {"fraction", fraction(row.floor, row.seconds)},
                       {"share", fraction(row.seconds, sum.seconds)}});
  }
  return {{"tokens", step.shape.tokens},
          {"sequences", step.shape.sequences},
          {"context", step.shape.context},
          {"step_ms", times.fastest * 1e3},
          {"median_step_ms", times.median * 1e3},
          {"tokens_per_s", static_cast<double>(step.shape.tokens) / times.fastest},
          {"time_us", sum.seconds * 1e6},
          {"outside_us", (times.median - sum.seconds) * 1e6},
          {"floor_us", sum.floor * 1e6},
          {"fraction", fraction(sum.floor, sum.seconds)},
          {"kernels", kernels}};
}

// The engine of any source, with a cache just large enough for both steps.
struct Subject {
  std::unique_ptr<engine::Engine> engine;
  Step prefill;
  Step decode;
};

Result<Subject> load_subject(const Arguments& arguments) {
  Result<api::ModelSource> source = api::find_source(arguments.positionals()[0]);
  if (!source) {
    return source.error();
  }
  LlmOptions options;
  options.cache_dir = arguments.text("cache_dir");
  options.executor.num_threads =
      static_cast<int32_t>(arguments.find_integer("threads").value_or(0));
  options.executor.max_batch_size = static_cast<int32_t>(arguments.integer("batch_size"));
  Result<std::string> path = api::prepare_engine(*source, options);
  if (!path) {
    return path.error();
  }
  Result<runtime::EngineInfo> info = runtime::read_engine_info(*path);
  if (!info) {
    return info.error();
  }
  const engine::EnginePlan& plan = info->plan;
  const int64_t batch = arguments.integer("batch_size");
  if (batch > plan.limits.max_batch_size) {
    return invalid_argument("[profile] --batch_size {} is above the engine's max_batch_size {}.",
                            batch, plan.limits.max_batch_size);
  }
  const int64_t prompt = std::min(
      {arguments.integer("prefill_tokens"), plan.limits.max_seq_len, plan.limits.max_num_tokens});
  const int64_t context = std::min(arguments.integer("context"), plan.limits.max_seq_len - 1);
  Subject subject;
  subject.prefill = make_step(plan, 1, prompt, 0);
  subject.decode = make_step(plan, batch, 1, context);
  const size_t blocks = std::max(subject.prefill.blocks.size(), subject.decode.blocks.size());
  engine::EngineOptions engine_options;
  engine_options.threads = options.executor.num_threads;
  engine_options.kv_cache_bytes = static_cast<int64_t>(blocks) * plan.kv.block_bytes();
  Result<std::unique_ptr<engine::Engine>> engine = engine::Engine::load(*path, engine_options);
  if (!engine) {
    return engine.error();
  }
  subject.engine = std::move(*engine);
  return subject;
}

Result<void> profile(const Arguments& arguments) {
  Result<Subject> subject = load_subject(arguments);
  if (!subject) {
    return subject.error();
  }
  engine::Engine& engine = *subject->engine;
  Result<kernels::MachineLimits> limits = engine.measure_limits();
  if (!limits) {
    return limits.error();
  }
  const int64_t repeats = arguments.integer("repeats");
  Result<engine::StepTimes> prefill = time_of(engine, subject->prefill, repeats);
  Result<engine::StepTimes> decode = time_of(engine, subject->decode, repeats);
  if (!prefill || !decode) {
    return prefill ? decode.error() : prefill.error();
  }
  const bool per_layer = arguments.flag("per_layer");
  const std::vector<Row> prefill_rows =
      make_rows(engine, subject->prefill, *prefill, *limits, per_layer);
  const std::vector<Row> decode_rows =
      make_rows(engine, subject->decode, *decode, *limits, per_layer);
  if (arguments.flag("json")) {
    const OrderedJson json = {{"engine", arguments.positionals()[0]},
                              {"threads", engine.device().threads},
                              {"instruction_set", engine.device().kernels},
                              {"limits",
                               {{"read_bytes_per_s", limits->read_bytes_per_s},
                                {"fp32_flops", limits->fp32_flops},
                                {"bf16_flops", limits->bf16_flops},
                                {"int8_ops", limits->int8_ops}}},
                              {"prefill", step_json(subject->prefill, prefill_rows, *prefill)},
                              {"decode", step_json(subject->decode, decode_rows, *decode)}};
    print("{}\n", dump_json(json));
    return {};
  }
  print(
      "{} threads, {}; limits: {:.1f} GB/s, fp32 {:.1f} GFLOP/s, bf16 {:.1f} GFLOP/s, int8 "
      "{:.1f} GOP/s\n\n",
      engine.device().threads, engine.device().kernels, limits->read_bytes_per_s / 1e9,
      limits->fp32_flops / 1e9, limits->bf16_flops / 1e9, limits->int8_ops / 1e9);
  print_step("prefill", subject->prefill, prefill_rows, *prefill);
  print_step("decode", subject->decode, decode_rows, *decode);
  return {};
}

}  // namespace

OptionTable profile_options() { return {{"profile", kRows}, {"general", common_options()}}; }

int run_profile(const Arguments& arguments) {
  if (arguments.positionals().empty()) {
    return report_usage("[profile] it needs an engine, or a model of any kind.");
  }
  const Result<void> done = profile(arguments);
  return done ? kExitDone : report_failure(done.error());
}

}  // namespace zonda::cli
