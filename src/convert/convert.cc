// SPDX-License-Identifier: Apache-2.0
#include "zonda/convert.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "convert/plan.h"
#include "convert/rows.h"
#include "convert/tokenizer_files.h"

namespace zonda::convert {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointWriter;

// Float values that one thread holds at a time, about.
constexpr int64_t kJobValues = int64_t{1} << 20;

// Some rows of one weight; a vector is one job.
struct Job {
  size_t weight = 0;
  int64_t first_row = 0;
  int64_t rows = 0;
};

std::vector<Job> make_jobs(const std::vector<PlannedWeight>& weights) {
  std::vector<Job> jobs;
  for (size_t i = 0; i < weights.size(); ++i) {
    const WeightType& type = weights[i].type;
    const int64_t step = std::max<int64_t>(1, kJobValues / std::max<int64_t>(1, type.cols));
    for (int64_t row = 0; row < type.rows; row += step) {
      jobs.push_back({i, row, std::min(step, type.rows - row)});
    }
  }
  return jobs;
}

int64_t stored_bytes(const WeightType& type) {
  const bool is_fp8 = type.format == WeightFormat::kFloat8E4M3;
  const int64_t fp8_scales = !is_fp8 ? 0 : type.per_tensor ? 1 : type.rows;
  return weight_data_bytes(type) + fp8_scales * 4 +
         type.rows * type.groups() * (type.has_minimum ? 4 : 2);
}

// Runs all jobs on a few threads. Of several faults that of the first job counts.
class Runner {
 public:
  Runner(const Source& source, const std::vector<PlannedWeight>& weights,
         const ConvertOptions& options, CheckpointWriter& writer)
      : source_(source),
        weights_(weights),
        options_(options),
        writer_(writer),
        jobs_(make_jobs(weights)),
        left_(weights.size(), 0) {
    for (const Job& job : jobs_) {
      ++left_[job.weight];
    }
    progress_.weights_total = static_cast<int64_t>(weights.size());
    for (const PlannedWeight& weight : weights) {
      progress_.bytes_total += stored_bytes(weight.type);
    }
  }

  Result<void> run() {
    const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
    const int32_t wanted = options_.workers > 0 ? options_.workers : std::max(cores, 1);
    const auto count = static_cast<int32_t>(std::min<size_t>(jobs_.size(), wanted));
    {
      std::vector<std::jthread> threads;
      for (int32_t i = 1; i < count; ++i) {
        threads.emplace_back([this] { work(); });
      }
      work();
    }
    if (fault_) {
      return *fault_;
    }
    return {};
  }

 private:
  void work() {
    RowBuffer buffer;
    while (!failed_) {
      const size_t index = next_.fetch_add(1);
      if (index >= jobs_.size()) {
        return;
      }
      const Result<void> done = run_guarded(jobs_[index], buffer);
      const std::lock_guard lock(mutex_);
      if (!done.ok()) {
        if (!fault_ || index < fault_job_) {
          fault_ = done.error();
          fault_job_ = index;
        }
        failed_ = true;
        return;
      }
      finish(jobs_[index]);
    }
  }

  // An exception may not leave a thread.
  Result<void> run_guarded(const Job& job, RowBuffer& buffer) {
    try {
      return run_one(job, buffer);
    } catch (const std::bad_alloc&) {
      return over_capacity("[convert] out of memory at {} rows of {}.", job.rows,
                           weights_[job.weight].spec.name);
    }
  }

  Result<void> run_one(const Job& job, RowBuffer& buffer) {
    const PlannedWeight& weight = weights_[job.weight];
    if (weight.spec.kind == models::WeightKind::kVector) {
      const Result<std::vector<float>> values = read_vector(source_, weight);
      return values.ok() ? writer_.write_vector(weight.spec.name, *values) : values.error();
    }
    if (Result<void> done = buffer.fill(source_, weight, job.first_row, job.rows); !done.ok()) {
      return done;
    }
    return writer_.write_rows(weight.spec.name, job.first_row, buffer.view());
  }

  // Under the lock.
  void finish(const Job& job) {
    if (--left_[job.weight] != 0) {
      return;
    }
    const PlannedWeight& weight = weights_[job.weight];
    for (const PlannedPart& part : weight.parts) {
      source_.release(source_.part_name(part.part));
    }
    ++progress_.weights_done;
    progress_.bytes_done += stored_bytes(weight.type);
    progress_.weight = weight.spec.name;
    if (options_.progress) {
      options_.progress(progress_);
    }
  }

  const Source& source_;
  const std::vector<PlannedWeight>& weights_;
  const ConvertOptions& options_;
  CheckpointWriter& writer_;
  const std::vector<Job> jobs_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false;

  std::mutex mutex_;          // guards what follows
  std::vector<size_t> left_;  // jobs of each weight
  ConvertProgress progress_;
  std::optional<Error> fault_;
  size_t fault_job_ = 0;
};

CheckpointWriter::Plan writer_plan(const std::vector<PlannedWeight>& weights) {
  CheckpointWriter::Plan plan;
  for (const PlannedWeight& weight : weights) {
    if (weight.spec.kind == models::WeightKind::kVector) {
      plan.add_vector(weight.spec.name, weight.spec.rows);
    } else {
      plan.add_weight(weight.spec.name, weight.type);
    }
  }
  return plan;
}

ConvertReport make_report(const ConvertPlan& plan, const CheckpointWriter& writer) {
  ConvertReport report;
  report.architecture = plan.config.architecture;
  report.dtype = dtype_name(plan.config.dtype);
  report.quant_algo = plan.config.quantization.quant_algo;
  report.weights = static_cast<int64_t>(plan.weights.size());
  for (const PlannedWeight& weight : plan.weights) {
    report.parameters += weight.type.rows * weight.type.cols;
    for (const PlannedPart& part : weight.parts) {
      report.source_bytes += static_cast<int64_t>(part.tensor.bytes.size());
    }
  }
  report.checkpoint_bytes = static_cast<int64_t>(writer.weight_file_bytes());
  return report;
}

// Replacing removes a folder: only one that a conversion made, and never one that holds the source.
Result<void> check_output(const ConvertOptions& options) {
  if (options.output_dir.empty()) {
    return invalid_argument("[convert] output_dir is empty.");
  }
  std::error_code code;
  const fs::path output = fs::weakly_canonical(options.output_dir, code);
  for (fs::path path = fs::weakly_canonical(options.model_dir, code); path != path.parent_path();
       path = path.parent_path()) {
    if (path == output) {
      return invalid_argument("[convert] output_dir {} holds the source {}.", options.output_dir,
                              options.model_dir);
    }
  }
  const bool filled = fs::is_directory(output, code) && !fs::is_empty(output, code);
  if (options.replace && filled && !fs::exists(output / "rank0.safetensors", code)) {
    return invalid_argument(
        "[convert] {} is not a checkpoint (no rank0.safetensors) and is not "
        "replaced.",
        options.output_dir);
  }
  return {};
}

}  // namespace

Result<ConvertReport> convert_checkpoint(const ConvertOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (Result<void> checked = check_output(options); !checked.ok()) {
    return checked.error();
  }
  Result<Source> source = open_source(options.model_dir);
  if (!source.ok()) {
    return source.error();
  }
  Result<ConvertPlan> plan = make_plan(*source, options);
  if (!plan.ok()) {
    return plan.error();
  }
  if (Result<void> done = find_tensor_scales(*source, plan->weights, options.workers); !done.ok()) {
    return done.error();
  }
  Result<CheckpointWriter> writer = CheckpointWriter::create(
      options.output_dir, writer_plan(plan->weights), {.replace = options.replace});
  if (!writer.ok()) {
    return writer.error();
  }
  Result<std::vector<std::string>> files = write_text_files(*source, writer->staging_folder());
  if (!files.ok()) {
    return files.error();
  }
  if (Result<void> done = Runner(*source, plan->weights, options, *writer).run(); !done.ok()) {
    return done.error();
  }
  ConvertReport report = make_report(*plan, *writer);
  if (Result<void> done = writer->finish(models::to_checkpoint_json(plan->config)); !done.ok()) {
    return done.error();
  }
  report.files = std::move(*files);
  report.remarks = source->remarks;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace zonda::convert
