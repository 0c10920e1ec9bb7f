// Builds an engine for this device from a checkpoint folder: what `zonda build` and trtllm-build
// do. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "zonda/error.h"

namespace zonda {

struct BuildOptions {
  std::string checkpoint_dir;
  std::string output_dir;
  bool replace_output = false;  // replace an existing output folder
  int64_t max_batch_size = 64;  // sequences a step
  int64_t max_input_len = 0;    // tokens of a prompt; 0: max_seq_len - 1
  int64_t max_seq_len =
      0;  // prompt + output; 0: the model's max_position_embeddings (scaled as its rope says)
  int64_t max_num_tokens = 2048;  // tokens a step; longer prompts are computed in chunks
  int32_t max_beam_width = 1;     // only 1 is supported
  int32_t tokens_per_block = 32;  // power of two, 8 to 128
  std::string device = "auto";    // auto (cuda where this build and machine have it), cpu, cuda
  std::string kv_cache_dtype = "auto";  // auto (the checkpoint's dtype; on cuda bfloat16 for
                                        // float32 models), float32 (cpu), float16, bfloat16
  // >= 0: weights are not read but drawn by the device at load, a function of this seed;
  // checkpoint_dir then needs a config.json only, a checkpoint's or Hugging Face's. CUDA only.
  int64_t random_weights = -1;
  int32_t threads = 0;  // 0: all processors this process may use
  bool time_tactics =
      true;  // false: default tactics, no measurements (plan.txt then has no measured times)
  std::string input_timing_cache;   // file to read; empty: none
  std::string output_timing_cache;  // file to write; empty: none
  std::vector<std::string> disabled_passes;
  std::vector<std::string>
      print_after;  // graph is printed to `print` after these passes; "all" names every pass
  std::function<void(std::string_view text)> print;
};

struct PassReport {
  std::string name;
  double milliseconds = 0.0;
  int64_t changes = 0;  // rewrites made
  bool disabled = false;
};

struct BuildReport {
  std::vector<PassReport> passes;
  std::string plan_text;  // what plan.txt holds
  int64_t engine_bytes = 0;
  int64_t timed_tactics = 0;   // measured now
  int64_t cached_tactics = 0;  // taken from the timing cache
  double pack_seconds = 0.0;
  double timing_seconds = 0.0;
  double total_seconds = 0.0;
};

// The device that BuildOptions::device means on this machine: "cpu; AMD EPYC; avx2",
// "cuda; NVIDIA H200; sm_90". kUnsupported if this build or machine has none.
Result<std::string> build_device(const std::string& device);

// Names of all passes in order.
std::vector<std::string> build_pass_names();

// Writes config.json, rank0.engine and plan.txt to output_dir, and the tokenizer files of the
// checkpoint beside them; a failed build leaves no folder. kInvalidArgument names option, value and
// limit.
Result<BuildReport> build_engine(const BuildOptions& options);

}  // namespace zonda
