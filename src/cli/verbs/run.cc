// `zonda run`: a model of any form answers prompts.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/log.h"
#include "cli/chat.h"
#include "cli/interrupt.h"
#include "cli/npy.h"
#include "cli/output.h"
#include "cli/requests.h"
#include "cli/run_batch.h"
#include "cli/run_figures.h"
#include "cli/verb.h"
#include "cli/weight_arguments.h"

namespace zonda::cli {
namespace {

constexpr int32_t kProfiledSteps = 1'000'000;

// The operand MODEL or --engine_dir; empty if there is neither or both.
std::string model_path(const Arguments& arguments) {
  if (arguments.has("engine_dir")) {
    return arguments.positionals().empty() ? arguments.text("engine_dir") : std::string{};
  }
  return arguments.positionals().empty() ? std::string{} : arguments.positionals()[0];
}

// `sequences`: of all requests together; all of them may wait at once.
Result<LlmOptions> llm_options(const Arguments& arguments, int64_t sequences) {
  LlmOptions options;
  Result<convert::ConvertOptions> weights = weight_arguments(arguments);
  if (!weights) {
    return weights.error();
  }
  options.dtype = weights->dtype;
  options.qformat = weights->qformat;
  options.group_size = weights->group_size;
  options.cache_dir = arguments.text("cache_dir");
  options.device = arguments.text("device");
  options.tokenizer_dir = arguments.text("tokenizer_dir");
  const auto narrow = [&](std::string_view name) {
    return static_cast<int32_t>(
        std::min<int64_t>(arguments.find_integer(name).value_or(0), INT32_MAX));
  };
  ExecutorConfig& executor = options.executor;
  executor.num_threads = narrow("threads");
  executor.deterministic = arguments.flag("deterministic");
  executor.max_batch_size = narrow("max_batch_size");
  executor.max_num_tokens = narrow("max_num_tokens");
  executor.max_seq_len = narrow("max_seq_len");
  executor.kv_cache_bytes = arguments.find_integer("kv_cache_bytes").value_or(0);
  executor.kv_cache_free_memory_fraction =
      arguments.find_number("kv_cache_free_memory_fraction").value_or(0.0);
  executor.enable_block_reuse = arguments.flag("kv_cache_enable_block_reuse");
  executor.max_queue_size =
      static_cast<int32_t>(std::clamp<int64_t>(sequences, executor.max_queue_size, INT32_MAX));
  executor.policy = arguments.text("scheduler_policy") == "max_utilization"
                        ? SchedulerPolicy::kMaxUtilization
                        : SchedulerPolicy::kGuaranteedNoEvict;
  if (arguments.flag("run_profiling")) {
    executor.stats_max_iterations = kProfiledSteps;
    // A prompt that is sent twice would otherwise cost nothing the second time.
    executor.enable_block_reuse =
        arguments.has("kv_cache_enable_block_reuse") && executor.enable_block_reuse;
  }
  return options;
}

// How answers appear on stdout: as JSON lines, as text while it comes, or in run.py's form.
class Printer {
 public:
  Printer(const Llm& llm, const Arguments& arguments, const std::vector<GenerateRequest>& requests)
      : llm_(llm),
        json_(arguments.flag("json")),
        streaming_(arguments.flag("streaming") && !json_),
        plain_(requests.size() == 1 && requests[0].sampling.n == 1),
        requests_(requests) {}

  // Of several sequences of a request only the first is shown while it comes.
  bool delta(size_t request, const ResponseDelta& delta) {
    if (!streaming_ || delta.sequence_index != 0) {
      return true;
    }
    if (!plain_ && !head_shown_) {
      print("Output [Text {} Beam 0]: ", request);
      head_shown_ = true;
    }
    print_text(llm_.info().has_tokenizer ? delta.text : ids_text(delta.token_ids) + " ");
    return flush_output();
  }

  bool answer(size_t request, const Answer& answer, double load_ms, const std::string& profiling) {
    if (json_) {
      print_text(answer_json(answer, requests_[request].sampling, load_ms, profiling) + "\n");
    } else if (streaming_) {
      print_text("\n");
      print_choices(request, answer, 1);
      head_shown_ = false;
    } else {
      print("Input [Text {}]: {}\n", request, quoted(answer.prompt_ids));
      print_choices(request, answer, 0);
    }
    return flush_output();
  }

 private:
  static std::string ids_text(const std::vector<int32_t>& ids) {
    std::string text;
    for (const int32_t id : ids) {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", id);
    }
    return text;
  }

  std::string quoted(const std::vector<int32_t>& ids) const {
    const Result<std::string> text = llm_.decode(ids, false);
    return text ? fmt::format("\"{}\"", *text) : fmt::format("[{}]", ids_text(ids));
  }

  void print_choices(size_t request, const Answer& answer, size_t first) const {
    for (size_t i = first; i < answer.choices.size(); ++i) {
      const Choice& choice = answer.choices[i];
      print("Output [Text {} Beam {}]: {}\n", request, i,
            llm_.info().has_tokenizer ? fmt::format("\"{}\"", choice.text) : quoted(choice.ids));
    }
  }

  const Llm& llm_;
  bool json_;
  bool streaming_;
  bool plain_;
  const std::vector<GenerateRequest>& requests_;
  bool head_shown_ = false;
};

Result<void> save_logits(const std::string& path, const Answer& answer) {
  const auto rows = static_cast<int64_t>(answer.prompt_ids.size());
  const auto values = static_cast<int64_t>(answer.context_logits.size());
  if (rows == 0 || values % rows != 0 || values == 0) {
    return internal_error("[run] {} logits came for {} tokens.", values, rows);
  }
  return write_npy(path, answer.context_logits, rows, values / rows);
}

// Everything once, with cache blocks that nobody else shares, and its figures forgotten.
Result<void> warm_up(Llm& llm, std::vector<GenerateRequest> requests) {
  for (GenerateRequest& request : requests) {
    request.cache_salt += "warm-up";
    request.return_context_logits = false;
  }
  const Result<BatchResult> done = run_batch(
      llm, requests, [](size_t, const ResponseDelta&) { return true; },
      [](size_t, const Answer&) { return true; });
  llm.executor().latest_iteration_stats();
  return done ? Result<void>{} : Result<void>{done.error()};
}

Result<int> answer_all(Llm& llm, const Arguments& arguments,
                       const std::vector<GenerateRequest>& requests) {
  const bool profiled = arguments.flag("run_profiling");
  if (profiled) {
    const Result<void> warm = warm_up(llm, requests);
    if (!warm) {
      return warm.error();
    }
  }
  const double load_ms = llm.info().load_ms;
  Printer printer(llm, arguments, requests);
  Result<BatchResult> batch = run_batch(
      llm, requests,
      [&](size_t request, const ResponseDelta& delta) { return printer.delta(request, delta); },
      [&](size_t request, const Answer& answer) {
        return profiled || printer.answer(request, answer, load_ms, "");
      });
  if (!batch) {
    return batch.error();
  }
  if (profiled) {
    const Profiling profiling =
        make_profiling(llm.executor().latest_iteration_stats(), batch->answers, batch->wall_ms);
    for (size_t i = 0; i < batch->answers.size(); ++i) {
      printer.answer(i, batch->answers[i], load_ms, profiling_json(profiling));
    }
    fmt::print(stderr, "{}", profiling_table(profiling));
  }
  if (arguments.has("output_logits_npy") && !batch->interrupted) {
    const Result<void> saved =
        save_logits(arguments.text("output_logits_npy"), batch->answers.back());
    if (!saved) {
      return saved.error();
    }
  }
  log_info("{}", figures_line(llm.info(), batch->answers));
  if (batch->interrupted) {
    return interrupted() ? kExitInterrupted : kExitFailed;
  }
  return kExitDone;
}

}  // namespace

int run_run(const Arguments& arguments) {
  const std::string path = model_path(arguments);
  if (path.empty()) {
    return report_usage("[run] it needs one model: the operand MODEL, or --engine_dir.");
  }
  Result<std::vector<GenerateRequest>> requests = collect_requests(arguments);
  if (!requests) {
    const ErrorCode code = requests.error().code;
    return code == ErrorCode::kNotFound || code == ErrorCode::kIo
               ? report_failure(requests.error())
               : report_usage(requests.error().message);
  }
  if (requests->empty() && !arguments.flag("chat")) {
    return report_usage(
        "[run] there is nothing to answer: give --input_text, --input_ids, "
        "--input_file or --chat.");
  }
  if (arguments.has("output_logits_npy") && requests->size() != 1) {
    return report_usage(
        fmt::format("[run] --output_logits_npy takes the logits of one request, and there are {}.",
                    requests->size()));
  }
  int64_t sequences = 0;
  for (const GenerateRequest& request : *requests) {
    sequences += request.sampling.n;
  }
  Result<LlmOptions> options = llm_options(arguments, sequences);
  if (!options) {
    return report_usage(options.error().message);
  }
  Result<std::unique_ptr<Llm>> llm = Llm::load(path, *options);
  if (!llm) {
    return report_failure(llm.error());
  }
  catch_interrupts();
  const Result<int> code = requests->empty() ? converse(**llm, arguments, std::cin)
                                             : answer_all(**llm, arguments, *requests);
  return code ? *code : report_failure(code.error());
}

}  // namespace zonda::cli
