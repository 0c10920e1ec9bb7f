// The command line: what is accepted, in which spellings, and what an error names.
// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "cli/help.h"
#include "cli/verb.h"
#include "cli/weight_arguments.h"

namespace zonda::cli {
namespace {

using Words = std::vector<std::string>;

// The message of the refusal, or "accepted".
std::string refusal(const OptionTable& table, const Words& words) {
  const Result<Arguments> parsed = parse_arguments(table, words);
  return parsed ? "accepted" : parsed.error().message;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Arguments, ValuesFollowABlankOrAnEqualsSign) {
  const Result<Arguments> parsed = parse_arguments(
      build_options(), {"--checkpoint_dir", "a b", "--max_batch_size=8", "-o", "out", "--replace"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->text("checkpoint_dir"), "a b");
  EXPECT_EQ(parsed->integer("max_batch_size"), 8);
  EXPECT_EQ(parsed->text("output_dir"), "out");
  EXPECT_TRUE(parsed->flag("replace"));
}

TEST(Arguments, DashesAndUnderscoresAndCaseAreTheSame) {
  const Result<Arguments> parsed =
      parse_arguments(build_options(), {"--max-batch-size", "8", "--Max_Num-tokens", "4k"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->integer("max_batch_size"), 8);
  EXPECT_EQ(parsed->integer("max_num_tokens"), 4000);
}

TEST(Arguments, WhatIsNotGivenHasTheDefaultOfTheTable) {
  const Result<Arguments> parsed = parse_arguments(build_options(), {});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->integer("max_batch_size"), 64);
  EXPECT_EQ(parsed->text("output_dir"), "engine_outputs");
  EXPECT_FALSE(parsed->flag("replace"));
  EXPECT_EQ(parsed->find_integer("max_output_len"), std::nullopt);
}

TEST(Arguments, SwitchesStandAloneOrTakeAWord) {
  for (const Words& on : {Words{"--streaming"},
                          {"--streaming=true"},
                          {"--streaming", "enable"},
                          {"--streaming", "True"},
                          {"--stream"}}) {
    const Result<Arguments> parsed = parse_arguments(run_options(), on);
    ASSERT_TRUE(parsed.ok());
    EXPECT_TRUE(parsed->flag("streaming")) << on.back();
    EXPECT_TRUE(parsed->positionals().empty());
  }
  const Result<Arguments> off = parse_arguments(run_options(), {"--streaming", "disable", "model"});
  ASSERT_TRUE(off.ok());
  EXPECT_FALSE(off->flag("streaming"));
  EXPECT_EQ(off->positionals(), Words{"model"});
  EXPECT_TRUE(mentions(refusal(run_options(), {"--streaming=maybe"}), "maybe"));
}

TEST(Arguments, ASwitchDoesNotSwallowTheOperandAfterIt) {
  const Result<Arguments> parsed = parse_arguments(run_options(), {"--json", "model"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->positionals(), Words{"model"});
}

TEST(Arguments, TextsMayBeginWithADashUnlessTheyNameAnOption) {
  const Result<Arguments> parsed =
      parse_arguments(run_options(), {"--input_text", "- a list", "--prompt", "--nothing"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->texts("input_text"), (Words{"- a list", "--nothing"}));
  EXPECT_TRUE(mentions(refusal(run_options(), {"--input_text", "--json"}), "needs a value"));
  EXPECT_TRUE(mentions(refusal(run_options(), {"--top_k"}), "needs a value"));
}

TEST(Arguments, NegativeNumbersAreValues) {
  const Result<Arguments> parsed = parse_arguments(run_options(), {"--presence_penalty", "-1.5"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->number("presence_penalty"), -1.5);
}

TEST(Arguments, TwoDashesEndTheOptions) {
  const Result<Arguments> parsed = parse_arguments(run_options(), {"--", "--model"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->positionals(), Words{"--model"});
}

TEST(Arguments, AnUnknownOptionNamesTheNearest) {
  EXPECT_TRUE(mentions(refusal(build_options(), {"--max_bach_size", "8"}), "--max_batch_size"));
  EXPECT_TRUE(mentions(refusal(build_options(), {"--max-bach-size=8"}), "--max_batch_size"));
  EXPECT_TRUE(mentions(refusal(run_options(), {"--temprature", "1"}), "--temperature"));
  EXPECT_TRUE(mentions(refusal(run_options(), {"--promt", "x"}), "--prompt"));
  const std::string far = refusal(run_options(), {"--zzzzzzzzzzzz"});
  EXPECT_TRUE(mentions(far, "--zzzzzzzzzzzz"));
  EXPECT_FALSE(mentions(far, "nearest"));
}

TEST(Arguments, AWrongValueNamesOptionValueAndWhatIsAllowed) {
  const std::string integer = refusal(build_options(), {"--max_batch_size", "many"});
  EXPECT_TRUE(mentions(integer, "--max_batch_size") && mentions(integer, "many"));
  const std::string choice = refusal(convert_options(), {"--dtype", "int32"});
  EXPECT_TRUE(mentions(choice, "int32") && mentions(choice, "bfloat16"));
  EXPECT_TRUE(mentions(refusal(convert_options(), {"--group_size", "48"}), "0 32 64 128"));
  EXPECT_TRUE(mentions(refusal(run_options(), {"--temperature", "-1"}), "at least 0"));
  EXPECT_TRUE(mentions(refusal(run_options(), {"--top_p", "1.5"}), "at most 1"));
  EXPECT_TRUE(mentions(refusal(run_options(), {"--threads", "0"}), "at least 1"));
}

TEST(Arguments, OnlyRepeatableOptionsHaveSeveralValues) {
  const Result<Arguments> parsed =
      parse_arguments(run_options(), {"--stop", "a", "--stop_words", "b", "--stop=c"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->texts("stop_words"), (Words{"a", "b", "c"}));
  EXPECT_TRUE(mentions(refusal(run_options(), {"--top_k", "1", "--top_k", "2"}), "--top_k"));
  EXPECT_EQ(refusal(run_options(), {"--top_k", "1", "--top_k", "1"}), "accepted");
}

TEST(Arguments, LaterArgumentsReplaceOptionByOption) {
  Result<Arguments> base = parse_arguments(run_options(), {"--top_k", "5", "--stop", "a"});
  Result<Arguments> over = parse_arguments(run_options(), {"--stop", "b", "--seed", "3"});
  ASSERT_TRUE(base.ok() && over.ok());
  base->override_with(*over);
  EXPECT_EQ(base->integer("top_k"), 5);
  EXPECT_EQ(base->texts("stop_words"), Words{"b"});
  EXPECT_EQ(base->find_integer("random_seed"), 3);
}

// Values that cannot be honoured are errors that name option, value and what is supported.
TEST(Compatibility, WhatWouldChangeTheResultIsRefused) {
  struct Case {
    OptionTable (*table)();
    Words words;
    std::string_view named;
  };
  const std::vector<Case> cases = {
      {build_options, {"--tp_size", "2"}, "Supported: 1"},
      {build_options, {"--world_size", "4"}, "Supported: 1"},
      {build_options, {"--max_beam_width", "4"}, "Supported: 1"},
      {build_options, {"--logits_dtype", "float16"}, "Supported: float32"},
      {build_options, {"--lora_plugin", "float16"}, "lora"},
      {build_options, {"--use_fp8_context_fmha", "enable"}, "use_fp8_context_fmha"},
      {build_options, {"--kv_cache_type", "disabled"}, "Supported: paged"},
      {build_options, {"--speculative_decoding_mode", "medusa"}, "medusa"},
      {build_options, {"--int8_kv_cache"}, "int8_kv_cache"},
      {build_options, {"--rotary_scaling", "linear", "2.0"}, "rotary_scaling"},
      {build_options, {"--weight_only_precision", "int4_awq"}, "Supported: int8 int4"},
      {convert_options, {"--pp_size", "2"}, "Supported: 1"},
      {convert_options, {"--qformat", "int8_sq"}, "int8_wo"},
      {convert_options, {"-sq", "0.5"}, "smoothquant"},
      {convert_options, {"--meta_ckpt_dir", "x"}, "model_dir"},
      {convert_options, {"--fp8_kv_cache"}, "fp8_kv_cache"},
      {run_options, {"--num_beams", "2"}, "Supported: 1"},
      {run_options, {"--lora_dir", "x"}, "lora_dir"},
      {run_options, {"--medusa_choices", "x"}, "medusa_choices"},
  };
  for (const Case& one : cases) {
    const Result<Arguments> parsed = parse_arguments(one.table(), one.words);
    ASSERT_FALSE(parsed.ok()) << one.words[0];
    EXPECT_EQ(parsed.error().code, ErrorCode::kUnsupported) << one.words[0];
    EXPECT_TRUE(mentions(parsed.error().message,
                         one.words[0].substr(one.words[0].find_first_not_of('-'))) ||
                mentions(parsed.error().message, one.named))
        << parsed.error().message;
    EXPECT_TRUE(mentions(parsed.error().message, one.named)) << parsed.error().message;
  }
}

// The command lines of trtllm-build and build.py, each flag of the reference once.
TEST(Compatibility, EveryFlagOfTrtllmBuildIsKnown) {
  const Words flags = {
      "checkpoint_dir", "output_dir", "model_config", "build_config", "model_cls_file",
      "model_cls_name", "max_batch_size", "max_beam_width", "max_input_len", "max_seq_len",
      "max_decoder_seq_len", "max_num_tokens", "opt_num_tokens", "max_encoder_input_len",
      "max_prompt_embedding_table_size", "max_multimodal_len", "kv_cache_type", "paged_kv_cache",
      "input_timing_cache", "output_timing_cache", "profiling_verbosity",
      "builder_force_num_profiles", "workers", "log_level", "logits_dtype", "gather_context_logits",
      "gather_generation_logits", "gather_all_token_logits", "lora_dir", "lora_ckpt_source",
      "lora_target_modules", "max_lora_rank", "speculative_decoding_mode", "max_draft_len",
      "auto_parallel", "gpus_per_node", "cluster_key", "strip_plan", "weight_sparsity",
      "weight_streaming", "fast_build", "enable_debug_output", "visualize_network", "dry_run",
      "monitor_memory", "bert_attention_plugin", "gpt_attention_plugin", "gemm_plugin",
      "gemm_swiglu_plugin", "fp8_rowwise_gemm_plugin", "nccl_plugin", "lookup_plugin",
      "lora_plugin", "moe_plugin", "mamba_conv1d_plugin", "low_latency_gemm_plugin", "context_fmha",
      "bert_context_fmha_fp32_acc", "remove_input_padding", "reduce_fusion", "enable_xqa",
      "tokens_per_block", "use_paged_context_fmha", "use_fp8_context_fmha", "multiple_profiles",
      "paged_state", "streamingllm", "manage_weights", "use_fused_mlp", "use_custom_all_reduce",
      "multi_block_mode", "attention_qk_half_accumulation", "use_context_fmha_for_generation",
      "strongly_typed", "builder_opt", "weight_only_precision", "tp_size", "pp_size",
      // build.py of 0.5 to 0.7
      "world_size", "model_dir", "ft_model_dir", "meta_ckpt_dir", "quant_ckpt_path", "dtype",
      "timing_cache", "max_output_len", "rotary_base", "rotary_scaling", "use_gpt_attention_plugin",
      "use_gemm_plugin", "use_rmsnorm_plugin", "use_lookup_plugin", "parallel_build",
      "enable_context_fmha", "enable_context_fmha_fp32_acc", "visualize", "use_smooth_quant",
      "per_channel", "per_token", "per_group", "group_size", "int8_kv_cache", "enable_fp8",
      "fp8_kv_cache", "quantized_fp8_model_path", "use_weight_only", "load_by_shard",
      "use_inflight_batching", "model_version", "use_parallel_embedding", "embedding_sharding_dim",
      "use_embedding_sharing"};
  for (const std::string& flag : flags) {
    EXPECT_NE(find_option(build_options(), flag), nullptr) << flag;
  }
}

TEST(Compatibility, EveryFlagOfConvertCheckpointIsKnown) {
  const Words flags = {"model_dir",
                       "meta_ckpt_dir",
                       "output_dir",
                       "tp_size",
                       "pp_size",
                       "moe_tp_size",
                       "moe_ep_size",
                       "dtype",
                       "workers",
                       "log_level",
                       "save_config_only",
                       "load_by_shard",
                       "load_model_on_cpu",
                       "vocab_size",
                       "n_positions",
                       "n_layer",
                       "n_head",
                       "n_kv_head",
                       "n_embd",
                       "inter_size",
                       "multiple_of",
                       "ffn_dim_multiplier",
                       "rms_norm_eps",
                       "hidden_act",
                       "rotary_base",
                       "moe_num_experts",
                       "moe_top_k",
                       "moe_renorm_mode",
                       "remove_duplicated_kv_heads",
                       "use_parallel_embedding",
                       "embedding_sharding_dim",
                       "use_embedding_sharing",
                       "use_weight_only",
                       "weight_only_precision",
                       "disable_weight_only_quant_plugin",
                       "per_group",
                       "group_size",
                       "quant_ckpt_path",
                       "ammo_quant_ckpt_path",
                       "modelopt_quant_ckpt_path",
                       "smoothquant",
                       "sq",
                       "per_channel",
                       "per_token",
                       "int8_kv_cache",
                       "fp8_kv_cache",
                       "use_fp8",
                       "use_fp8_rowwise",
                       "calib_dataset",
                       "calib_size",
                       "calib_max_seq_length",
                       "qformat",
                       "kv_cache_dtype",
                       "awq_block_size",
                       "batch_size",
                       "device",
                       "autoq_format"};
  for (const std::string& flag : flags) {
    EXPECT_NE(find_option(convert_options(), flag), nullptr) << flag;
  }
}

TEST(Compatibility, EveryFlagOfRunPyIsKnown) {
  const Words flags = {"num_beams",
                       "num_return_sequences",
                       "temperature",
                       "top_k",
                       "top_p",
                       "length_penalty",
                       "repetition_penalty",
                       "presence_penalty",
                       "frequency_penalty",
                       "beam_search_diversity_rate",
                       "random_seed",
                       "early_stopping",
                       "end_id",
                       "stop_words",
                       "bad_words",
                       "no_repeat_ngram_size",
                       "sink_token_length",
                       "max_attention_window_size",
                       "multi_block_mode",
                       "enable_context_fmha_fp32_acc",
                       "cuda_graph_mode",
                       "log_level",
                       "no_prompt_template",
                       "use_py_session",
                       "debug_mode",
                       "streaming",
                       "streaming_interval",
                       "prompt_table_path",
                       "prompt_tasks",
                       "lora_dir",
                       "lora_ckpt_source",
                       "lora_task_uids",
                       "num_prepend_vtokens",
                       "draft_target_model_config",
                       "medusa_choices",
                       "lookahead_config",
                       "engine_dir",
                       "tokenizer_type",
                       "vocab_file",
                       "no_add_special_tokens",
                       "hf_model_dir",
                       "tokenizer_dir",
                       "gpu_weights_percent",
                       "max_tokens_in_paged_kv_cache",
                       "kv_cache_enable_block_reuse",
                       "kv_cache_free_gpu_memory_fraction",
                       "enable_chunked_context",
                       "data_type",
                       "return_all_generated_tokens",
                       "max_output_len",
                       "max_input_length",
                       "input_text",
                       "input_file",
                       "multimodal_input_file",
                       "input_token_extra_ids",
                       "input_token_extra_ids_file",
                       "output_csv",
                       "output_npy",
                       "output_logits_npy",
                       "output_log_probs_npy",
                       "output_cum_log_probs_npy",
                       "draft_engine_dir",
                       "run_profiling"};
  for (const std::string& flag : flags) {
    EXPECT_NE(find_option(run_options(), flag), nullptr) << flag;
  }
}

TEST(Compatibility, AnOlderCommandLineIsAcceptedAndEachFlagWithoutEffectIsListed) {
  const Result<Arguments> parsed = parse_arguments(
      build_options(),
      {"--model_dir", "m", "--dtype", "float16", "--remove_input_padding",
       "--use_gpt_attention_plugin", "float16", "--enable_context_fmha", "--use_gemm_plugin",
       "float16", "--output_dir", "e", "--use_inflight_batching", "--parallel_build"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->positionals().empty());
  std::set<std::string_view> names;
  for (const Option* option : parsed->without_effect()) {
    EXPECT_FALSE(option->reason.empty());
    names.insert(option->name);
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"remove_input_padding", "gpt_attention_plugin",
                                               "context_fmha", "gemm_plugin",
                                               "use_inflight_batching", "parallel_build"}));
}

TEST(Compatibility, TheOlderSpellingOfWeightOnlyMeansTheSame) {
  const auto options = [](const Words& words) {
    return weight_arguments(*parse_arguments(convert_options(), words));
  };
  EXPECT_EQ(options({"--use_weight_only"})->qformat, "int8_wo");
  EXPECT_EQ(options({"--qformat", "fp8"})->qformat, "fp8");
  EXPECT_EQ(options({"--qformat", "fp8_rowwise"})->qformat, "fp8_pc_pt");
  EXPECT_EQ(options({"--use_fp8"})->qformat, "fp8");
  EXPECT_EQ(options({"--use_fp8_rowwise"})->qformat, "fp8_pc_pt");
  EXPECT_FALSE(options({"--use_fp8", "--qformat", "fp8_pc_pt"}).ok());
  EXPECT_FALSE(options({"--use_fp8", "--use_weight_only"}).ok());
  EXPECT_FALSE(options({"--use_fp8_rowwise", "--weight_only_precision", "int4"}).ok());
  EXPECT_FALSE(options({"--qformat", "fp8", "--per_channel"}).ok());
  EXPECT_FALSE(options({"--qformat", "fp8_pc_pt", "--group_size", "64"}).ok());
  EXPECT_EQ(options({"--use_weight_only", "--weight_only_precision", "int4"})->qformat, "int4_wo");
  EXPECT_EQ(options({"--qformat", "int4_wo"})->group_size, 128);
  EXPECT_EQ(options({"--qformat", "int4_wo", "--per_channel"})->group_size, 0);
  EXPECT_EQ(options({"--qformat", "full_prec"})->qformat, "none");
  EXPECT_FALSE(options({"--weight_only_precision", "int4"}).ok());
  EXPECT_FALSE(
      options({"--qformat", "int8_wo", "--use_weight_only", "--weight_only_precision", "int4"})
          .ok());
  EXPECT_FALSE(options({"--per_channel", "--group_size", "64"}).ok());
}

// One name, one row: otherwise a row can never be reached.
TEST(Tables, NamesAreUniqueAndEveryRowExplainsItself) {
  for (const Verb& verb : verbs()) {
    std::set<std::string_view> names;
    for (const OptionGroup& group : verb.options()) {
      for (const Option& option : group.options) {
        EXPECT_TRUE(names.insert(option.name).second) << verb.name << " " << option.name;
        for (const std::string_view alias : split_words(option.aliases)) {
          EXPECT_TRUE(names.insert(alias).second) << verb.name << " " << alias;
        }
        if (option.effect == OptionEffect::kActs) {
          EXPECT_FALSE(option.help.empty()) << verb.name << " " << option.name;
        } else {
          EXPECT_FALSE(option.reason.empty()) << verb.name << " " << option.name;
        }
        if (!option.default_text.empty()) {
          EXPECT_TRUE(canonical_value(option, option.default_text).ok()) << option.name;
        }
      }
    }
  }
}

TEST(Help, ShowsDefaultsAndHidesWhatDoesNothingUnlessAsked) {
  const Verb* build = find_verb("build");
  ASSERT_NE(build, nullptr);
  const std::string shown = verb_help(*build, "enable");
  EXPECT_TRUE(mentions(shown, "--max_batch_size N") && mentions(shown, "[64]"));
  EXPECT_FALSE(mentions(shown, "gemm_plugin"));
  EXPECT_TRUE(mentions(verb_help(*build, "all"), "--gemm_plugin"));
  const std::string found = verb_help(*build, "timing");
  EXPECT_TRUE(mentions(found, "--input_timing_cache"));
  EXPECT_FALSE(mentions(found, "--max_batch_size"));
}

// `zonda help --markdown` prints what belongs there.
TEST(Help, TheOptionsInTheDocumentAreThoseOfTheTables) {
  const Result<std::string> document = read_file(ZONDA_SOURCE_DIR "/docs/cli.md");
  ASSERT_TRUE(document.ok());
  const std::string marker = "## Options\n\n";
  const size_t start = document->find(marker);
  ASSERT_NE(start, std::string::npos);
  EXPECT_EQ(document->substr(start + marker.size()), options_markdown());
}

}  // namespace
}  // namespace zonda::cli
