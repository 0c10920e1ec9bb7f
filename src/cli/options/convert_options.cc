// Options of `zonda convert`: ours, and those of convert_checkpoint.py and quantize.py.
// SPDX-License-Identifier: Apache-2.0
#include "cli/options/shared_options.h"
#include "cli/verb.h"

namespace zonda::cli {
namespace {

constexpr OptionType kText = OptionType::kText;
constexpr OptionType kInteger = OptionType::kInteger;
constexpr OptionType kNumber = OptionType::kNumber;
constexpr OptionEffect kNothing = OptionEffect::kNothing;
constexpr OptionEffect kRefused = OptionEffect::kRefused;
constexpr std::string_view kShape = "the shape is read from the model's config.json";

constexpr Option kFiles[] = {
    {.name = "model_dir",
     .type = kText,
     .value = "PATH",
     .help = "A Hugging Face folder, a .gguf file, or a folder with one .gguf file."},
    {.name = "output_dir",
     .type = kText,
     .value = "FOLDER",
     .help = "The checkpoint folder; appears only when it is complete.",
     .default_text = "tllm_checkpoint",
     .aliases = "o"},
    {.name = "replace", .help = "Replace the output folder if it exists.", .aliases = "force"},
    {.name = "workers",
     .type = kInteger,
     .value = "N",
     .help = "Threads; 0: one for each processor.",
     .default_text = "0",
     .least = 0},
    {.name = "json", .help = "The report as one JSON object on stdout."},
};

constexpr Option kCompatibility[] = {
    {.name = "meta_ckpt_dir",
     .type = kText,
     .effect = kRefused,
     .reason = "Meta's own checkpoints are not read; give the Hugging Face folder as --model_dir"},
    {.name = "save_config_only",
     .effect = kRefused,
     .supported = "disable",
     .reason = "a checkpoint always has its weights"},
    {.name = "load_by_shard", .effect = kNothing, .reason = "tensors are always read one by one"},
    {.name = "load_model_on_cpu", .effect = kNothing, .reason = "nothing is loaded on a GPU"},
    {.name = "kv_cache_dtype",
     .type = kText,
     .effect = kRefused,
     .reason = "it is chosen when the engine is built: zonda build --kv_cache_dtype"},
    {.name = "awq_block_size",
     .type = kInteger,
     .effect = kNothing,
     .reason = "AWQ is not made here"},
    {.name = "batch_size",
     .type = kInteger,
     .effect = kNothing,
     .reason = "no format made here needs calibration"},
    {.name = "device", .type = kText, .effect = kNothing, .reason = "conversion runs on the CPU"},
    {.name = "autoq_format",
     .type = kText,
     .effect = kRefused,
     .reason = "mixed automatic quantisation is not implemented"},
    {.name = "vocab_size", .type = kInteger, .effect = kNothing, .reason = kShape},
    {.name = "n_positions", .type = kInteger, .effect = kNothing, .reason = kShape},
    {.name = "n_layer", .type = kInteger, .effect = kNothing, .reason = kShape},
    {.name = "n_head", .type = kInteger, .effect = kNothing, .reason = kShape},
    {.name = "n_kv_head", .type = kInteger, .effect = kNothing, .reason = kShape},
    {.name = "n_embd", .type = kInteger, .effect = kNothing, .reason = kShape},
    {.name = "inter_size", .type = kInteger, .effect = kNothing, .reason = kShape},
    {.name = "multiple_of", .type = kInteger, .effect = kNothing, .reason = kShape},
    {.name = "ffn_dim_multiplier", .type = kNumber, .effect = kNothing, .reason = kShape},
    {.name = "rms_norm_eps", .type = kNumber, .effect = kNothing, .reason = kShape},
    {.name = "hidden_act", .type = kText, .effect = kNothing, .reason = kShape},
    {.name = "moe_num_experts", .type = kInteger, .effect = kNothing, .reason = kShape},
    {.name = "moe_top_k", .type = kInteger, .effect = kNothing, .reason = kShape},
    {.name = "moe_renorm_mode", .type = kText, .effect = kNothing, .reason = kShape},
};

}  // namespace

OptionTable convert_options() {
  return {{"files", kFiles},
          {"weights", weight_options()},
          {"accepted from convert_checkpoint.py", kCompatibility},
          {"accepted quantisation options", quantization_compatibility()},
          {"accepted parallel options", parallel_compatibility()},
          {"general", common_options()}};
}

}  // namespace zonda::cli
