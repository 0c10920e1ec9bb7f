// `zonda build` and trtllm-build: a checkpoint or a model becomes an engine for this machine.
// SPDX-License-Identifier: Apache-2.0
#include "zonda/build.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "api/prepare.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/interrupt.h"
#include "cli/number.h"
#include "cli/options/shared_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "cli/weight_arguments.h"

namespace zonda::cli {
namespace {

bool file_exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

Result<void> check_passes(const Arguments& arguments, std::string_view option, bool allow_all) {
  const std::vector<std::string> names = build_pass_names();
  for (const std::string& name : arguments.texts(option)) {
    if (std::find(names.begin(), names.end(), name) == names.end() &&
        !(allow_all && name == "all")) {
      std::string list;
      for (const std::string& known : names) {
        list += (list.empty() ? "" : ", ") + known;
      }
      return invalid_argument("[options] --{} {}: no such pass. The passes are {}.", option, name,
                              list);
    }
  }
  return {};
}

// max_seq_len, or the older max_input_len + max_output_len.
Result<int64_t> sequence_length(const Arguments& arguments) {
  const std::optional<int64_t> output = arguments.find_integer("max_output_len");
  if (!output) {
    return arguments.integer("max_seq_len");
  }
  if (arguments.has("max_seq_len")) {
    return invalid_argument(
        "[options] --max_output_len {} and --max_seq_len {} both say how long a sequence may be.",
        *output, arguments.integer("max_seq_len"));
  }
  const int64_t input = arguments.integer("max_input_len");
  if (input == 0) {
    return invalid_argument("[options] --max_output_len {} needs --max_input_len.", *output);
  }
  return input + *output;
}

Result<BuildOptions> read_options(const Arguments& arguments) {
  BuildOptions options;
  Result<int64_t> length = sequence_length(arguments);
  if (!length) {
    return length.error();
  }
  for (const auto& [option, allow_all] :
       {std::pair{"disable_pass", false}, {"print_after", true}}) {
    const Result<void> known = check_passes(arguments, option, allow_all);
    if (!known) {
      return known.error();
    }
  }
  options.max_seq_len = *length;
  options.output_dir = arguments.text("output_dir");
  options.replace_output = arguments.flag("replace");
  options.max_batch_size = arguments.integer("max_batch_size");
  options.max_input_len = arguments.integer("max_input_len");
  options.max_num_tokens = arguments.integer("max_num_tokens");
  options.tokens_per_block = static_cast<int32_t>(arguments.integer("tokens_per_block"));
  options.device = arguments.text("device");
  options.random_weights = arguments.find_integer("random_weights").value_or(-1);
  options.kv_cache_dtype = arguments.text("kv_cache_dtype");
  options.threads = static_cast<int32_t>(arguments.integer("threads"));
  options.time_tactics = !arguments.flag("fast_build");
  options.input_timing_cache = arguments.text("input_timing_cache");
  options.output_timing_cache = arguments.text("output_timing_cache");
  if (arguments.has("timing_cache")) {
    const std::string both = arguments.text("timing_cache");
    options.output_timing_cache = both;
    options.input_timing_cache = file_exists(both) ? both : "";
  }
  options.disabled_passes = arguments.texts("disable_pass");
  options.print_after = arguments.texts("print_after");
  options.print = [](std::string_view text) { print_text(text); };
  return options;
}

// The checkpoint to build from; made of --model_dir, or of an operand of any kind, if need be.
Result<std::string> find_checkpoint(const Arguments& arguments) {
  if (arguments.has("checkpoint_dir")) {
    for (const Option& option : weight_options()) {
      if (arguments.has(option.name)) {
        log_info("--{} means nothing with --checkpoint_dir: its weights are as they are.",
                 option.name);
      }
    }
    return arguments.text("checkpoint_dir");
  }
  if (arguments.has("random_weights")) {
    return invalid_argument(
        "[build] --random_weights needs --checkpoint_dir, a folder with a config.json.");
  }
  const std::string path =
      arguments.has("model_dir") ? arguments.text("model_dir") : arguments.positionals()[0];
  Result<api::ModelSource> source = api::find_source(path);
  if (!source) {
    return source.error();
  }
  if (source->kind == api::SourceKind::kEngine) {
    return invalid_argument("[build] {} is already an engine; build needs a checkpoint or a model.",
                            path);
  }
  Result<convert::ConvertOptions> convert = weight_arguments(arguments);
  if (!convert) {
    return convert.error();
  }
  Progress progress("convert");
  convert->progress = [&](const convert::ConvertProgress& state) {
    progress.update(state.bytes_done, state.bytes_total, state.weight);
  };
  return api::prepare_checkpoint(*source, arguments.text("cache_dir"), *convert);
}

void print_report(const BuildReport& report, const BuildOptions& options, bool json) {
  for (const PassReport& pass : report.passes) {
    log_info("pass {:<24} {:>4} changes {:8.2f} ms{}", pass.name, pass.changes, pass.milliseconds,
             pass.disabled ? " (switched off)" : "");
  }
  log_info("packed in {:.1f} s; {} tactics timed and {} from the cache in {:.1f} s",
           report.pack_seconds, report.timed_tactics, report.cached_tactics, report.timing_seconds);
  log_info("{}: {} in {:.1f} s", options.output_dir, bytes_text(report.engine_bytes),
           report.total_seconds);
  if (!json) {
    return;
  }
  OrderedJson passes = OrderedJson::array();
  for (const PassReport& pass : report.passes) {
    passes.push_back({{"name", pass.name},
                      {"milliseconds", pass.milliseconds},
                      {"changes", pass.changes},
                      {"disabled", pass.disabled}});
  }
  const OrderedJson object = {
      {"output_dir", options.output_dir},      {"engine_bytes", report.engine_bytes},
      {"timed_tactics", report.timed_tactics}, {"cached_tactics", report.cached_tactics},
      {"pack_seconds", report.pack_seconds},   {"timing_seconds", report.timing_seconds},
      {"total_seconds", report.total_seconds}, {"passes", passes}};
  print("{}\n", dump_json(object));
}

}  // namespace

int run_build(const Arguments& arguments) {
  if (arguments.flag("list_passes")) {
    for (const std::string& name : build_pass_names()) {
      print("{}\n", name);
    }
    return kExitDone;
  }
  const size_t sources = (arguments.has("checkpoint_dir") ? 1 : 0) +
                         (arguments.has("model_dir") ? 1 : 0) + arguments.positionals().size();
  if (sources != 1) {
    return report_usage(fmt::format(
        "[build] it needs one of --checkpoint_dir, --model_dir or a path, and has {}.", sources));
  }
  Result<BuildOptions> options = read_options(arguments);
  if (!options) {
    return report_usage(options.error().message);
  }
  const InterruptGuard guard(options->output_dir);
  Result<std::string> checkpoint = find_checkpoint(arguments);
  if (!checkpoint) {
    return report_failure(checkpoint.error());
  }
  options->checkpoint_dir = *checkpoint;
  Result<BuildReport> report = build_engine(*options);
  if (!report) {
    return report_failure(report.error());
  }
  print_report(*report, *options, arguments.flag("json"));
  return kExitDone;
}

}  // namespace zonda::cli
