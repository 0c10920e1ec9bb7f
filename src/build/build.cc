// The stages of a build, in order.
// SPDX-License-Identifier: Apache-2.0
#include "zonda/build.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "build/lower.h"
#include "build/pass.h"
#include "build/plan_text.h"
#include "build/resolve.h"
#include "build/weight_source.h"
#include "engine/backend.h"
#include "engine/engine_file.h"
#include "engine/load.h"
#include "engine/tactics.h"
#include "graph/verify.h"
#include "models/architecture.h"

namespace zonda {
namespace build {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool listed(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<void> check_pass_names(const std::vector<std::string>& names, const char* option,
                              bool allow_all) {
  const std::vector<std::string> known = build_pass_names();
  for (const std::string& name : names) {
    if (!listed(known, name) && !(allow_all && name == "all")) {
      std::string list;
      for (const std::string& pass : known) {
        list += (list.empty() ? "" : ", ") + pass;
      }
      return invalid_argument("[build] --{} names \"{}\", which is none of the passes {}.", option,
                              name, list);
    }
  }
  return {};
}

Result<void> verified(const graph::Graph& graph, std::string_view stage) {
  const Result<void> result = graph::verify(graph);
  if (!result.ok()) {
    return internal_error("[build] after {}: {}", stage, result.error().message);
  }
  return {};
}

Result<void> run_passes(graph::Graph& graph, const WeightSource& weights,
                        const BuildOptions& options, BuildReport& report) {
  const PassContext context{weights};
  for (const Pass& pass : passes()) {
    PassReport& entry = report.passes.emplace_back();
    entry.name = pass.name;
    entry.disabled = listed(options.disabled_passes, pass.name);
    const Clock::time_point start = Clock::now();
    if (!entry.disabled) {
      entry.changes = pass.run(graph, context);
      if (Result<void> checked = verified(graph, pass.name); !checked.ok()) {
        return checked;
      }
    }
    entry.milliseconds = seconds_since(start) * 1e3;
    if (options.print &&
        (listed(options.print_after, pass.name) || listed(options.print_after, "all"))) {
      options.print(fmt::format("graph after {}:\n{}", pass.name, graph::print(graph)));
    }
    log_verbose("pass {}: {} changes in {:.2f} ms{}", pass.name, entry.changes, entry.milliseconds,
                entry.disabled ? " (switched off)" : "");
  }
  return {};
}

// Times tactics on the weights just written, or takes the defaults.
Result<void> choose_tactics(const BuildOptions& options, const engine::EngineFileWriter& writer,
                            engine::OpenDevice& device, engine::EnginePlan& plan,
                            BuildReport& report) {
  const Clock::time_point start = Clock::now();
  Result<MappedFile> mapped = writer.map();
  if (!mapped.ok()) {
    return mapped.error();
  }
  const engine::SampledLinears linears =
      engine::collect_linears(plan, mapped->bytes().data() + engine::kWeightAlignment);
  std::vector<engine::BucketTimes> times;
  engine::TimingCache cache;
  if (!options.input_timing_cache.empty()) {
    Result<engine::TimingCache> loaded = engine::TimingCache::load(options.input_timing_cache);
    if (!loaded.ok()) {
      return loaded.error();
    }
    cache = std::move(*loaded);
  }
  engine::TacticTimer timer(device, cache);
  for (const engine::LinearSample& sample : linears.samples) {
    if (!options.time_tactics) {
      times.push_back(engine::default_tactics(device, sample.packed));
      continue;
    }
    Result<engine::BucketTimes> chosen = timer.choose(sample, plan.limits.max_num_tokens);
    if (!chosen.ok()) {
      return chosen.error();
    }
    times.push_back(std::move(*chosen));
  }
  engine::set_tactics(plan, linears, times);
  report.timed_tactics = timer.measured();
  report.cached_tactics = timer.from_cache();
  report.timing_seconds = seconds_since(start);
  if (options.time_tactics && !options.output_timing_cache.empty()) {
    return cache.save(options.output_timing_cache);
  }
  return {};
}

OrderedJson engine_config_json(const engine::EnginePlan& plan, const BuildOptions& options,
                               const OrderedJson& pretrained_config) {
  OrderedJson build_config;
  build_config["max_input_len"] = plan.limits.max_input_len;
  build_config["max_seq_len"] = plan.limits.max_seq_len;
  build_config["max_batch_size"] = plan.limits.max_batch_size;
  build_config["max_beam_width"] = plan.limits.max_beam_width;
  build_config["max_num_tokens"] = plan.limits.max_num_tokens;
  build_config["kv_cache_type"] = "PAGED";
  build_config["kv_cache_dtype"] = dtype_name(plan.kv.dtype);
  build_config["device"] = plan.device_fingerprint;
  if (plan.random_seed >= 0) {
    build_config["random_weights"] = plan.random_seed;
  }
  build_config["disabled_passes"] = options.disabled_passes;
  build_config["plugin_config"] = {{"paged_kv_cache", true},
                                   {"remove_input_padding", true},
                                   {"use_paged_context_fmha", true},
                                   {"tokens_per_block", plan.limits.tokens_per_block}};
  OrderedJson json;
  json["version"] = engine::kEngineVersion;
  json["pretrained_config"] = pretrained_config;
  json["build_config"] = std::move(build_config);
  return json;
}

// Tokenizer, template and generation defaults: every plain file of the checkpoint but weights and
// configuration.
Result<void> copy_text_files(const std::string& checkpoint_dir, const std::string& output_dir) {
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint_dir, code)) {
    const fs::path& path = entry.path();
    if (!entry.is_regular_file() || path.extension() == ".safetensors" ||
        path.filename() == "config.json") {
      continue;
    }
    fs::copy_file(path, fs::path(output_dir) / path.filename(), code);
    if (code) {
      return io_error("[build] copy {}: {}.", path.string(), code.message());
    }
  }
  if (code) {
    return io_error("[build] list {}: {}.", checkpoint_dir, code.message());
  }
  return {};
}

// Replacing removes a folder: only one that a build made.
Result<void> check_output(const BuildOptions& options) {
  std::error_code code;
  const fs::path output = options.output_dir;
  const bool filled = fs::is_directory(output, code) && !fs::is_empty(output, code);
  if (options.replace_output && filled && !fs::exists(output / "rank0.engine", code)) {
    return invalid_argument("[build] {} is not an engine (no rank0.engine) and is not replaced.",
                            options.output_dir);
  }
  return {};
}

// Everything of a plan but weight offsets and tactics.
Result<engine::EnginePlan> make_plan(const BuildOptions& options, const WeightSource& weights,
                                     const engine::Backend& backend, BuildReport& report) {
  const Result<models::ModelConfig> config =
      models::parse_checkpoint_config(Json(weights.config()));
  if (!config.ok()) {
    return config.error();
  }
  const Result<const models::Architecture*> architecture =
      models::find_architecture(config->architecture);
  if (!architecture.ok()) {
    return architecture.error();
  }
  engine::EnginePlan plan;
  const Result<engine::BuildLimits> limits = resolve_limits(options, *config);
  if (!limits.ok()) {
    return limits.error();
  }
  plan.limits = *limits;
  const Result<engine::KvLayout> kv = resolve_kv_layout(options, *config, backend);
  if (!kv.ok()) {
    return kv.error();
  }
  plan.kv = *kv;
  plan.device = backend.kind();
  plan.activation = backend.activation_dtype(config->dtype);
  plan.rotary = resolve_rotary(*config);
  plan.pretrained_config = Json(weights.config());
  std::error_code code;
  plan.checkpoint_dir = fs::absolute(options.checkpoint_dir, code).string();
  graph::Graph graph = (*architecture)->build_graph(*config);
  if (const Result<void> checked = verified(graph, "construction"); !checked.ok()) {
    return checked.error();
  }
  if (const Result<void> ran = run_passes(graph, weights, options, report); !ran.ok()) {
    return ran.error();
  }
  if (const Result<void> lowered = lower(graph, weights, backend, config->dtype, plan);
      !lowered.ok()) {
    return lowered.error();
  }
  return plan;
}

// Packs, times and writes the engine file into `folder`.
Result<void> write_engine(const BuildOptions& options, const WeightSource& weights,
                          const engine::Backend& backend, engine::OpenDevice& device,
                          const std::string& folder, engine::EnginePlan& plan,
                          BuildReport& report) {
  Result<engine::EngineFileWriter> writer =
      engine::EngineFileWriter::create(folder + "/rank0.engine");
  if (!writer.ok()) {
    return writer.error();
  }
  const Clock::time_point start = Clock::now();
  if (Result<void> written = weights.write(plan, backend, *writer); !written.ok()) {
    return written;
  }
  report.pack_seconds = seconds_since(start);
  plan.device_fingerprint = device.facts().fingerprint;
  if (Result<void> chosen = choose_tactics(options, *writer, device, plan, report); !chosen.ok()) {
    return chosen;
  }
  const Result<int64_t> bytes = writer->finish(plan);
  if (!bytes.ok()) {
    return bytes.error();
  }
  report.engine_bytes = *bytes;
  return {};
}

Result<void> write_texts(const BuildOptions& options, const OrderedJson& pretrained,
                         const engine::EnginePlan& plan, const engine::DeviceFacts& device,
                         const std::string& folder, BuildReport& report) {
  const OrderedJson config = engine_config_json(plan, options, pretrained);
  if (Result<void> written = write_file(folder + "/config.json", dump_json(config, 2) + "\n");
      !written.ok()) {
    return written;
  }
  if (options.time_tactics) {
    const Result<PlanMeasurement> measured = measure_plan(folder, plan.kv, device.threads);
    if (!measured.ok()) {
      return measured.error();
    }
    report.plan_text = plan_text(plan, &*measured, device.cost);
  } else {
    report.plan_text = plan_text(plan, nullptr, device.cost);
  }
  if (Result<void> written = write_file(folder + "/plan.txt", report.plan_text); !written.ok()) {
    return written;
  }
  return copy_text_files(options.checkpoint_dir, folder);
}

}  // namespace
}  // namespace build

std::vector<std::string> build_pass_names() {
  std::vector<std::string> names;
  for (const build::Pass& pass : build::passes()) {
    names.emplace_back(pass.name);
  }
  return names;
}

Result<std::string> build_device(const std::string& device) {
  const Result<const engine::Backend*> backend = build::resolve_backend(device);
  return backend.ok() ? (*backend)->fingerprint() : Result<std::string>(backend.error());
}

Result<BuildReport> build_engine(const BuildOptions& options) {
  const auto start = build::Clock::now();
  BuildReport report;
  if (const Result<void> known =
          build::check_pass_names(options.disabled_passes, "disable_pass", false);
      !known.ok()) {
    return known.error();
  }
  if (const Result<void> known = build::check_pass_names(options.print_after, "print_after", true);
      !known.ok()) {
    return known.error();
  }
  if (const Result<void> checked = build::check_output(options); !checked.ok()) {
    return checked.error();
  }
  const Result<std::unique_ptr<build::WeightSource>> weights =
      options.random_weights < 0
          ? build::open_checkpoint(options.checkpoint_dir)
          : build::draw_weights(options.checkpoint_dir, options.random_weights);
  if (!weights.ok()) {
    return weights.error();
  }
  const Result<const engine::Backend*> backend = build::resolve_backend(options.device);
  if (!backend.ok()) {
    return backend.error();
  }
  if (options.random_weights >= 0 && (*backend)->kind() != device::DeviceKind::kCuda) {
    return unsupported(
        "[build] --random_weights {}: weights are drawn by CUDA devices only; give --device cuda.",
        options.random_weights);
  }
  engine::EngineOptions device_options;
  device_options.threads = options.threads;
  Result<std::unique_ptr<engine::OpenDevice>> device = (*backend)->open(device_options);
  if (!device.ok()) {
    return device.error();
  }
  Result<engine::EnginePlan> plan = build::make_plan(options, **weights, **backend, report);
  if (!plan.ok()) {
    return plan.error();
  }
  Result<StagedFolder> folder = StagedFolder::create(options.output_dir, options.replace_output);
  if (!folder.ok()) {
    return folder.error();
  }
  if (const Result<void> written = build::write_engine(options, **weights, **backend, **device,
                                                       folder->path(), *plan, report);
      !written.ok()) {
    return written.error();
  }
  const engine::DeviceFacts facts = (*device)->facts();
  device->reset();  // its threads and memory, before the finished engine takes its own
  if (const Result<void> written =
          build::write_texts(options, (*weights)->config(), *plan, facts, folder->path(), report);
      !written.ok()) {
    return written.error();
  }
  if (const Result<void> committed = folder->commit(); !committed.ok()) {
    return committed.error();
  }
  report.total_seconds = build::seconds_since(start);
  return report;
}

}  // namespace zonda
