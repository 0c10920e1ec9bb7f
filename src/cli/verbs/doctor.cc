// `zonda doctor`: what this machine can do, what is missing, and the command that adds it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>

#include "api/version.h"
#include "base/env.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/gpu_probe.h"
#include "cli/number.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "engine/cost.h"
#include "runtime/engine_info.h"

namespace zonda::cli {
namespace {

constexpr int kRequiredMajor = 8;
constexpr int kRequiredMinor = 0;

constexpr Option kRows[] = {
    {.name = "json", .help = "As one JSON object."},
    {.name = "threads",
     .type = OptionType::kInteger,
     .value = "N",
     .help = "Threads to measure with; not given: one for each processor this process may use.",
     .least = 1,
     .most = 4096},
};

// A finding that costs speed or rules something out, and what to do about it.
struct Advice {
  std::string problem;
  std::string remedy;
};

struct Findings {
  int threads = 0;
  kernels::MachineLimits limits;
  GpuReport gpus;
  std::vector<Advice> advice;
};

bool is_supported(const Gpu& gpu) {
  return std::pair(gpu.compute_major, gpu.compute_minor) >=
         std::pair(kRequiredMajor, kRequiredMinor);
}

void check_processor(std::vector<Advice>& advice) {
  const device::CpuIsa isa = device::detect_cpu_isa();
  if (isa == device::CpuIsa::kPortable) {
    advice.push_back({"no vector instructions that the kernels know: plain loops run instead",
                      "use a processor with AVX2; in a virtual machine, pass the host's model "
                      "through (QEMU: -cpu host)"});
  } else if (isa < device::CpuIsa::kAvx512Bf16) {
    advice.push_back({fmt::format("no AVX-512 BF16 or AMX: prompts and bfloat16 run at the rate of "
                                  "{}",
                                  device::cpu_isa_name(isa)),
                      "a processor from Zen 4 or Sapphire Rapids on has them"});
  }
}

void check_cache_folder(std::vector<Advice>& advice) {
  const std::string folder = cache_folder();
  if (folder.empty()) {
    advice.push_back({"no cache folder: neither XDG_CACHE_HOME nor HOME is set",
                      "export XDG_CACHE_HOME=FOLDER"});
    return;
  }
  std::error_code error;
  std::filesystem::path existing = folder;
  while (!existing.empty() && !std::filesystem::exists(existing, error) &&
         existing != existing.parent_path()) {
    existing = existing.parent_path();
  }
  if (::access(existing.c_str(), W_OK) != 0) {
    advice.push_back({fmt::format("the cache folder {} cannot be written", folder),
                      "export XDG_CACHE_HOME=FOLDER"});
  }
}

void check_gpus(const GpuReport& gpus, std::vector<Advice>& advice) {
  if (gpus.gpus.empty()) {
    advice.push_back({gpus.problem + ": models run on the CPU",
                      "on Debian 12, with non-free enabled: apt-get install nvidia-driver"});
  }
  for (const Gpu& gpu : gpus.gpus) {
    if (!is_supported(gpu)) {
      advice.push_back(
          {fmt::format("{} has compute capability {}.{}; {}.{} is required", gpu.name,
                       gpu.compute_major, gpu.compute_minor, kRequiredMajor, kRequiredMinor),
           "use an Ampere GPU or a later one"});
    }
  }
  if (!gpus.gpus.empty()) {
    advice.push_back({"this build has no CUDA backend: models run on the CPU",
                      "nothing to install; this version runs on processors"});
  }
}

OrderedJson findings_json(const Findings& found) {
  OrderedJson gpus = OrderedJson::array();
  for (const Gpu& gpu : found.gpus.gpus) {
    gpus.push_back(
        {{"name", gpu.name},
         {"compute_capability", fmt::format("{}.{}", gpu.compute_major, gpu.compute_minor)},
         {"memory_bytes", gpu.memory_bytes},
         {"supported", is_supported(gpu)}});
  }
  OrderedJson advice = OrderedJson::array();
  for (const Advice& one : found.advice) {
    advice.push_back({{"problem", one.problem}, {"remedy", one.remedy}});
  }
  const kernels::MachineLimits& limits = found.limits;
  return {{"version", api::kVersion},
          {"processor",
           {{"name", device::cpu_model_name()},
            {"instruction_set", device::cpu_isa_name(device::detect_cpu_isa())},
            {"processors", device::available_cpus()},
            {"threads", found.threads}}},
          {"limits",
           {{"read_bytes_per_s", limits.read_bytes_per_s},
            {"read_streams", limits.streams},
            {"fp32_flops", limits.fp32_flops},
            {"bf16_flops", limits.bf16_flops},
            {"int8_ops", limits.int8_ops}}},
          {"memory_available_bytes", runtime::available_memory()},
          {"cache_folder", cache_folder()},
          {"gpu_driver", found.gpus.driver},
          {"gpu_cuda_version", found.gpus.cuda_version},
          {"gpu_problem", found.gpus.problem},
          {"gpu_required_compute_capability", fmt::format("{}.{}", kRequiredMajor, kRequiredMinor)},
          {"gpus", gpus},
          {"missing", advice}};
}

void print_findings(const Findings& found) {
  const kernels::MachineLimits& limits = found.limits;
  print("zonda            {}\n", api::kVersion);
  print("processor        {}, {} available, {} threads\n", device::cpu_model_name(),
        device::available_cpus(), found.threads);
  print("instruction set  {}\n", device::cpu_isa_name(device::detect_cpu_isa()));
  print("read bandwidth   {:.1f} GB/s ({} streams a thread)\n", limits.read_bytes_per_s / 1e9,
        limits.streams);
  print("fp32             {:.1f} GFLOP/s\n", limits.fp32_flops / 1e9);
  print("bf16             {:.1f} GFLOP/s\n", limits.bf16_flops / 1e9);
  print("int8             {:.1f} GOP/s\n", limits.int8_ops / 1e9);
  print("memory           {} available\n", bytes_text(runtime::available_memory()));
  print("cache folder     {}\n", cache_folder());
  if (found.gpus.gpus.empty()) {
    print("GPU              none: {}\n", found.gpus.problem);
  }
  for (const Gpu& gpu : found.gpus.gpus) {
    print(
        "GPU              {}, {}, driver {} (CUDA {}), compute capability {}.{} (required "
        "{}.{}): {}\n",
        gpu.name, bytes_text(gpu.memory_bytes), found.gpus.driver, found.gpus.cuda_version,
        gpu.compute_major, gpu.compute_minor, kRequiredMajor, kRequiredMinor,
        is_supported(gpu) ? "supported" : "not supported");
  }
  for (const Advice& advice : found.advice) {
    print("missing          {}\n                 -> {}\n", advice.problem, advice.remedy);
  }
}

}  // namespace

OptionTable doctor_options() { return {{"doctor", kRows}, {"general", common_options()}}; }

int run_doctor(const Arguments& arguments) {
  Findings found;
  const std::optional<int64_t> threads = arguments.find_integer("threads");
  found.threads = threads ? static_cast<int>(*threads) : device::available_cpus();
  device::ThreadPool pool(found.threads);
  device::Stream stream(pool);
  Result<kernels::MachineLimits> limits = kernels::measure_limits(stream);
  if (!limits) {
    return report_failure(limits.error());
  }
  found.limits = *limits;
  found.gpus = find_gpus();
  check_processor(found.advice);
  check_cache_folder(found.advice);
  check_gpus(found.gpus, found.advice);
  if (arguments.flag("json")) {
    print("{}\n", dump_json(findings_json(found)));
  } else {
    print_findings(found);
  }
  return kExitDone;
}

}  // namespace zonda::cli
