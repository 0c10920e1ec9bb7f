// SPDX-License-Identifier: Apache-2.0
#include "cli/options/shared_options.h"

namespace zonda::cli {
namespace {

constexpr OptionType kText = OptionType::kText;
constexpr OptionType kInteger = OptionType::kInteger;
constexpr OptionType kNumber = OptionType::kNumber;
constexpr OptionEffect kNothing = OptionEffect::kNothing;
constexpr OptionEffect kRefused = OptionEffect::kRefused;

constexpr Option kWeights[] = {
    {.name = "dtype",
     .type = kText,
     .value = "DTYPE",
     .help = "Of the weights that are not quantised; auto keeps what the source has.",
     .default_text = "auto",
     .choices = "auto float32 float16 bfloat16"},
    {.name = "qformat",
     .type = kText,
     .value = "FORMAT",
     .help =
         "How the linears are quantised; none and full_prec keep them. fp8: e4m3 with one scale "
         "of the tensor (quant_algo FP8); fp8_pc_pt, also fp8_rowwise: a scale of each row "
         "(FP8_PER_CHANNEL_PER_TOKEN); embedding and LM head stay. int8_wo, int4_wo: weight-only; "
         "embedding and LM head become int8 with the same groups. Nothing is calibrated: scales "
         "of fp8 activations are found token by token.",
     .default_text = "none",
     .effect = kRefused,
     .supported = "none full_prec fp8 fp8_pc_pt fp8_rowwise int8_wo int4_wo",
     .reason = "only formats that need no calibration are made here"},
    {.name = "group_size",
     .type = kInteger,
     .value = "N",
     .help =
         "Of integers: values of a row that share a scale: 32, 64 or 128; 0 is one scale a row.",
     .default_text = "128",
     .choices = "0 32 64 128"},
    {.name = "per_channel", .help = "One scale a row, the same as --group_size 0."},
    {.name = "asymmetric", .help = "A group also has a minimum."},
    {.name = "exclude_modules",
     .type = kText,
     .value = "NAME",
     .help = "A module that stays unquantised: lm_head, transformer.layers.0.mlp.fc, ...; '*' "
             "stands for any characters.",
     .repeatable = true},
    {.name = "use_weight_only", .help = "The older spelling of --qformat, with the next one."},
    {.name = "weight_only_precision",
     .type = kText,
     .value = "KIND",
     .help = "int8 is --qformat int8_wo, int4 is --qformat int4_wo.",
     .default_text = "int8",
     .effect = kRefused,
     .supported = "int8 int4",
     .reason = "AWQ and GPTQ checkpoints are not read"},
    {.name = "use_fp8",
     .help = "The older spelling of --qformat fp8.",
     .aliases = "enable_fp8 fp8"},
    {.name = "use_fp8_rowwise", .help = "The older spelling of --qformat fp8_pc_pt."},
    {.name = "per_group",
     .effect = kNothing,
     .reason = "groups are the rule; --group_size and --per_channel choose them"},
    {.name = "disable_weight_only_quant_plugin",
     .effect = kNothing,
     .reason = "there are no plugins; the kernel is chosen by timing"},
};

constexpr Option kQuantization[] = {
    {.name = "quant_ckpt_path",
     .type = kText,
     .aliases = "ammo_quant_ckpt_path modelopt_quant_ckpt_path quantized_fp8_model_path",
     .effect = kRefused,
     .reason = "AWQ and GPTQ checkpoints are not read; a folder with fp8 weights is a --model_dir "
               "itself"},
    {.name = "smoothquant",
     .type = kNumber,
     .aliases = "sq",
     .effect = kRefused,
     .reason = "SmoothQuant is not implemented; --qformat int8_wo is the nearest"},
    {.name = "use_smooth_quant",
     .effect = kRefused,
     .supported = "disable",
     .reason = "SmoothQuant is not implemented; --qformat int8_wo is the nearest"},
    {.name = "per_token",
     .effect = kRefused,
     .supported = "disable",
     .reason = "it belongs to SmoothQuant, which is not implemented"},
    {.name = "int8_kv_cache",
     .effect = kRefused,
     .supported = "disable",
     .reason = "the KV cache is never int8 (build --kv_cache_dtype)"},
    {.name = "fp8_kv_cache",
     .effect = kRefused,
     .supported = "disable",
     .reason = "it is chosen when the engine is built: zonda build --kv_cache_dtype fp8 (CUDA)"},
    {.name = "calib_dataset",
     .type = kText,
     .effect = kNothing,
     .reason = "no format made here needs calibration"},
    {.name = "calib_size",
     .type = kInteger,
     .effect = kNothing,
     .reason = "no format made here needs calibration"},
    {.name = "calib_max_seq_length",
     .type = kInteger,
     .effect = kNothing,
     .reason = "no format made here needs calibration"},
    {.name = "rotary_base",
     .type = kNumber,
     .effect = kRefused,
     .reason = "it is read from the model's config.json; change rope_theta there"},
    {.name = "rotary_scaling",
     .type = kText,
     .effect = kRefused,
     .reason = "it is read from the model's config.json; change rope_scaling there"},
};

constexpr Option kParallel[] = {
    {.name = "tp_size",
     .type = kInteger,
     .effect = kRefused,
     .supported = "1",
     .reason = "this build runs a model in one process"},
    {.name = "pp_size",
     .type = kInteger,
     .effect = kRefused,
     .supported = "1",
     .reason = "this build runs a model in one process"},
    {.name = "cp_size",
     .type = kInteger,
     .effect = kRefused,
     .supported = "1",
     .reason = "this build runs a model in one process"},
    {.name = "world_size",
     .type = kInteger,
     .effect = kRefused,
     .supported = "1",
     .reason = "this build runs a model in one process"},
    {.name = "moe_tp_size",
     .type = kInteger,
     .effect = kRefused,
     .supported = "-1 1",
     .reason = "this build runs a model in one process"},
    {.name = "moe_ep_size",
     .type = kInteger,
     .effect = kRefused,
     .supported = "-1 1",
     .reason = "this build runs a model in one process"},
    {.name = "auto_parallel",
     .type = kInteger,
     .effect = kRefused,
     .supported = "1",
     .reason = "this build runs a model in one process"},
    {.name = "gpus_per_node",
     .type = kInteger,
     .effect = kNothing,
     .reason = "this build runs a model in one process"},
    {.name = "cluster_key",
     .type = kText,
     .effect = kNothing,
     .reason = "this build runs a model in one process"},
    {.name = "use_parallel_embedding",
     .effect = kNothing,
     .reason = "checkpoints are rank-free; nothing is split"},
    {.name = "embedding_sharding_dim",
     .type = kInteger,
     .effect = kNothing,
     .reason = "checkpoints are rank-free; nothing is split"},
    {.name = "use_embedding_sharing",
     .effect = kNothing,
     .reason = "the embedding is shared exactly if the model's config.json says so"},
    {.name = "remove_duplicated_kv_heads",
     .effect = kNothing,
     .reason = "checkpoints are rank-free; KV heads are never duplicated"},
    {.name = "use_custom_all_reduce",
     .type = OptionType::kPlugin,
     .effect = kNothing,
     .reason = "this build runs a model in one process"},
};

constexpr Option kSource[] = {
    {.name = "cache_dir",
     .type = kText,
     .value = "FOLDER",
     .help =
         "Where checkpoints and engines made on the way are kept. Unset: $XDG_CACHE_HOME/zonda, "
         "or ~/.cache/zonda."},
    {.name = "tokenizer_dir",
     .type = kText,
     .value = "FOLDER",
     .help = "Take tokenizer, chat template and generation settings from here instead of from the "
             "model.",
     .aliases = "hf_model_dir"},
};

}  // namespace

std::span<const Option> weight_options() { return kWeights; }
std::span<const Option> quantization_compatibility() { return kQuantization; }
std::span<const Option> parallel_compatibility() { return kParallel; }
std::span<const Option> source_options() { return kSource; }

}  // namespace zonda::cli
