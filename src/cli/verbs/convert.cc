// `zonda convert`: a model folder or GGUF file becomes a checkpoint folder.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/interrupt.h"
#include "cli/number.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "cli/weight_arguments.h"

namespace zonda::cli {
namespace {

void print_json(const convert::ConvertReport& report, const std::string& output_dir) {
  OrderedJson json;
  json["output_dir"] = output_dir;
  json["architecture"] = report.architecture;
  json["dtype"] = report.dtype;
  json["quant_algo"] = report.quant_algo;
  json["weights"] = report.weights;
  json["parameters"] = report.parameters;
  json["source_bytes"] = report.source_bytes;
  json["checkpoint_bytes"] = report.checkpoint_bytes;
  json["seconds"] = report.seconds;
  json["files"] = report.files;
  json["remarks"] = report.remarks;
  print("{}\n", dump_json(json));
}

}  // namespace

int run_convert(const Arguments& arguments) {
  if (!arguments.has("model_dir")) {
    return report_usage(
        "[convert] --model_dir is required: a Hugging Face folder or a GGUF "
        "file.");
  }
  Result<convert::ConvertOptions> options = weight_arguments(arguments);
  if (!options) {
    return report_usage(options.error().message);
  }
  options->model_dir = arguments.text("model_dir");
  options->output_dir = arguments.text("output_dir");
  options->replace = arguments.flag("replace");
  options->workers = static_cast<int32_t>(arguments.integer("workers"));
  const InterruptGuard guard(options->output_dir);
  Result<convert::ConvertReport> report = internal_error("[convert] did not run.");
  {
    Progress progress("convert");
    options->progress = [&](const convert::ConvertProgress& state) {
      progress.update(state.bytes_done, state.bytes_total, state.weight);
    };
    report = convert::convert_checkpoint(*options);
  }
  if (!report) {
    return report_failure(report.error());
  }
  for (const std::string& remark : report->remarks) {
    log_info("{}", remark);
  }
  log_info("{}: {}, {} weights, {:.1f} M parameters, {}{}, {} -> {} in {:.1f} s",
           options->output_dir, report->architecture, report->weights,
           static_cast<double>(report->parameters) / 1e6, report->dtype,
           report->quant_algo.empty() ? "" : " " + report->quant_algo,
           bytes_text(report->source_bytes), bytes_text(report->checkpoint_bytes), report->seconds);
  if (arguments.flag("json")) {
    print_json(*report, options->output_dir);
  }
  return kExitDone;
}

}  // namespace zonda::cli
