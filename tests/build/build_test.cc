// Builds tiny engines and runs them: the laws that every engine keeps.
// SPDX-License-Identifier: Apache-2.0
#include "zonda/build.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "base/json.h"
#include "engine/engine.h"
#include "test_support/temp_folder.h"
#include "test_support/tiny_checkpoint.h"

namespace zonda {
namespace {

namespace fs = std::filesystem;
using engine::Engine;
using engine::SequenceInput;

BuildOptions tiny_options(const TempFolder& folder) {
  BuildOptions options;
  options.checkpoint_dir = folder.path() + "/checkpoint";
  options.output_dir = folder.path() + "/engine";
  options.max_batch_size = 8;
  options.max_num_tokens = 64;
  options.tokens_per_block = 8;
  options.threads = 2;
  options.time_tactics = false;
  return options;
}

std::unique_ptr<Engine> load(const std::string& path, int32_t threads = 2) {
  engine::EngineOptions options;
  options.threads = threads;
  options.kv_cache_bytes = int64_t{1} << 24;
  auto engine = Engine::load(path, options);
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return std::move(*engine);
}

std::vector<int32_t> prompt(int32_t length) {
  std::vector<int32_t> tokens(static_cast<size_t>(length));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>((i * 31 + 7) % 103);
  }
  return tokens;
}

// Logits of all tokens, computed in chunks of `chunk` tokens over the given blocks.
std::vector<float> logits_of(Engine& engine, const std::vector<int32_t>& tokens, int32_t chunk,
                             const std::vector<int32_t>& blocks) {
  std::vector<float> all;
  for (int32_t begin = 0; begin < static_cast<int32_t>(tokens.size()); begin += chunk) {
    const int32_t count = std::min(chunk, static_cast<int32_t>(tokens.size()) - begin);
    const SequenceInput sequence{count, begin, blocks.data(), static_cast<int32_t>(tokens.size())};
    std::vector<int32_t> rows(static_cast<size_t>(count));
    std::iota(rows.begin(), rows.end(), 0);
    const auto logits = engine.run(
        {std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)),
         {&sequence, 1},
         rows});
    EXPECT_TRUE(logits.ok()) << (logits.ok() ? "" : logits.error().message);
    all.insert(all.end(), logits->logits.begin(), logits->logits.end());
  }
  return all;
}

std::vector<int32_t> blocks_from(int32_t first, int32_t step = 1) {
  std::vector<int32_t> blocks(16);
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = first + step * static_cast<int32_t>(i);
  }
  return blocks;
}

class Build : public testing::Test {
 protected:
  void SetUp() override {
    write_tiny_checkpoint(folder_.path() + "/checkpoint", tiny_config(), 1);
    options_ = tiny_options(folder_);
  }
  TempFolder folder_;
  BuildOptions options_;
};

TEST_F(Build, WritesConfigEngineAndPlanAndCopiesTextFiles) {
  ASSERT_TRUE(write_file(options_.checkpoint_dir + "/tokenizer.json", "{}").ok());
  const auto report = build_engine(options_);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const Json config = parse_json_file(options_.output_dir + "/config.json").value();
  EXPECT_EQ(config["pretrained_config"]["architecture"], "LlamaForCausalLM");
  EXPECT_EQ(config["build_config"]["max_seq_len"], 256);
  EXPECT_EQ(config["build_config"]["plugin_config"]["tokens_per_block"], 8);
  EXPECT_EQ(read_file(options_.output_dir + "/tokenizer.json").value(), "{}");
  EXPECT_NE(read_file(options_.output_dir + "/plan.txt").value().find("layers.1.mlp.gated"),
            std::string::npos);
  EXPECT_EQ(report->passes.size(), build_pass_names().size());
}

TEST_F(Build, TimedBuildListsFloorsAndTimesAndTheCacheServesTheNextBuild) {
  options_.time_tactics = true;
  options_.output_timing_cache = folder_.path() + "/model.cache";
  const auto first = build_engine(options_);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_GT(first->timed_tactics, 0);
  EXPECT_NE(first->plan_text.find("floor us"), std::string::npos);
  options_.input_timing_cache = options_.output_timing_cache;
  options_.replace_output = true;
  const auto second = build_engine(options_);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->timed_tactics, 0);
  EXPECT_GT(second->cached_tactics, 0);
}

TEST_F(Build, EveryPassFiresOnALlamaAndNoneChangesTheLogits) {
  const auto fused = build_engine(options_);
  ASSERT_TRUE(fused.ok()) << fused.error().message;
  for (const PassReport& pass : fused->passes) {
    EXPECT_TRUE(pass.changes > 0 || pass.name == "remove_dead_nodes") << pass.name;
  }
  const auto expected = logits_of(*load(options_.output_dir), prompt(40), 40, blocks_from(0));
  for (const std::string& pass : build_pass_names()) {
    options_.output_dir = folder_.path() + "/without_" + pass;
    options_.disabled_passes = {pass};
    ASSERT_TRUE(build_engine(options_).ok());
    EXPECT_EQ(logits_of(*load(options_.output_dir), prompt(40), 40, blocks_from(0)), expected)
        << pass;
  }
}

TEST_F(Build, LogitsDoNotDependOnChunksBlocksOrThreads) {
  ASSERT_TRUE(build_engine(options_).ok());
  const auto engine = load(options_.output_dir);
  const auto expected = logits_of(*engine, prompt(60), 60, blocks_from(0));
  for (const int32_t chunk : {1, 3, 8, 17, 59}) {
    EXPECT_EQ(logits_of(*engine, prompt(60), chunk, blocks_from(50, -2)), expected) << chunk;
  }
  EXPECT_EQ(logits_of(*load(options_.output_dir, 1), prompt(60), 60, blocks_from(3)), expected);
  EXPECT_EQ(logits_of(*load(options_.output_dir, 3), prompt(60), 7, blocks_from(3)), expected);
}

TEST_F(Build, LogitsDoNotDependOnTheRestOfTheBatch) {
  ASSERT_TRUE(build_engine(options_).ok());
  const auto engine = load(options_.output_dir);
  const auto tokens = prompt(20);
  const auto alone = logits_of(*engine, tokens, 20, blocks_from(0));
  // Three sequences: 5 tokens of another one, ours, and one token of a third.
  std::vector<int32_t> packed = {1, 2, 3, 4, 5};
  packed.insert(packed.end(), tokens.begin(), tokens.end());
  packed.push_back(9);
  const std::vector<int32_t> a = blocks_from(20);
  const std::vector<int32_t> b = blocks_from(40);
  const std::vector<int32_t> c = blocks_from(60);
  const std::vector<SequenceInput> sequences = {
      {5, 0, a.data(), 5}, {20, 0, b.data(), 20}, {1, 0, c.data(), 1}};
  std::vector<int32_t> rows(20);
  std::iota(rows.begin(), rows.end(), 5);
  const auto logits = engine->run({packed, sequences, rows});
  ASSERT_TRUE(logits.ok());
  EXPECT_TRUE(std::equal(logits->logits.begin(), logits->logits.end(), alone.begin(), alone.end()));
}

TEST_F(Build, CopiedBlocksServeAForkedSequence) {
  ASSERT_TRUE(build_engine(options_).ok());
  const auto engine = load(options_.output_dir);
  const auto tokens = prompt(12);
  const auto expected = logits_of(*engine, tokens, 12, blocks_from(0));
  engine->copy_block(1, 9);
  const std::vector<int32_t> forked = {0, 9};
  const SequenceInput sequence{1, 11, forked.data(), 12};
  const std::vector<int32_t> rows = {0};
  const auto logits = engine->run({std::span(tokens).last(1), {&sequence, 1}, rows});
  ASSERT_TRUE(logits.ok());
  EXPECT_TRUE(std::equal(logits->logits.begin(), logits->logits.end(), expected.end() - 103,
                         expected.end()));
}

TEST_F(Build, StepsOutOfRangeAreRefusedWithTheLimit) {
  ASSERT_TRUE(build_engine(options_).ok());
  const auto engine = load(options_.output_dir);
  const std::vector<int32_t> blocks = blocks_from(0);
  const auto refusal = [&](std::vector<int32_t> tokens, SequenceInput sequence,
                           std::vector<int32_t> rows) {
    const auto ran = engine->run({tokens, {&sequence, 1}, rows});
    return ran.ok() ? std::string("accepted") : ran.error().message;
  };
  EXPECT_NE(refusal({103}, {1, 0, blocks.data(), 1}, {}).find("vocabulary of 103"),
            std::string::npos);
  EXPECT_NE(refusal({-1}, {1, 0, blocks.data(), 1}, {}).find("token id -1"), std::string::npos);
  EXPECT_NE(refusal(prompt(65), {65, 0, blocks.data(), 65}, {}).find("limit is 64"),
            std::string::npos);
  EXPECT_NE(refusal({1}, {1, 256, blocks.data(), 1}, {}).find("max_seq_len is 256"),
            std::string::npos);
  EXPECT_NE(refusal({1, 2}, {1, 0, blocks.data(), 1}, {}).find("hold 1 tokens"), std::string::npos);
  EXPECT_NE(refusal({1}, {1, 0, blocks.data(), 1}, {1}).find("logits row 1"), std::string::npos);
  const std::vector<int32_t> beyond = {1 << 30};
  EXPECT_NE(refusal({1}, {1, 0, beyond.data(), 1}, {}).find("outside the"), std::string::npos);
}

TEST_F(Build, OptionsOutOfRangeNameOptionValueAndLimitAndLeaveNoFolder) {
  const auto refusal = [&](auto change) {
    BuildOptions options = options_;
    change(options);
    const auto report = build_engine(options);
    EXPECT_FALSE(fs::exists(options.output_dir));
    return report.ok() ? std::string("accepted") : report.error().message;
  };
  EXPECT_NE(
      refusal([](auto& o) { o.max_seq_len = 257; }).find("--max_seq_len is 257, expected 1 to 256"),
      std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.tokens_per_block = 12; }).find("power of two"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.max_beam_width = 4; }).find("--max_beam_width is 4"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.kv_cache_dtype = "int3"; }).find("int3"), std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.disabled_passes = {"fuse_everything"}; }).find("fuse_residual"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.checkpoint_dir += "_none"; }).find("_none"), std::string::npos);
}

TEST_F(Build, ReplacesEnginesOnly) {
  ASSERT_TRUE(build_engine(options_).ok());
  options_.replace_output = true;
  EXPECT_TRUE(build_engine(options_).ok());
  options_.output_dir = options_.checkpoint_dir;
  EXPECT_NE(build_engine(options_).error().message.find("is not an engine"), std::string::npos);
  EXPECT_TRUE(fs::exists(options_.checkpoint_dir + "/rank0.safetensors"));
}

TEST_F(Build, PrintsTheGraphAfterThePassesAskedFor) {
  std::string printed;
  options_.print_after = {"fuse_residual"};
  options_.print = [&](std::string_view text) { printed += text; };
  ASSERT_TRUE(build_engine(options_).ok());
  EXPECT_NE(printed.find("graph after fuse_residual"), std::string::npos);
  EXPECT_NE(printed.find("epilogue=add_residual"), std::string::npos);
  EXPECT_EQ(printed.find("graph after hoist_select"), std::string::npos);
}

TEST_F(Build, AnEngineOfAnotherDeviceIsTimedAgainOrRefused) {
  ASSERT_TRUE(build_engine(options_).ok());
  engine::EngineOptions other;
  other.threads = 2;
  other.strict_device = true;
  other.kv_cache_bytes = 1 << 22;
  EXPECT_TRUE(Engine::load(options_.output_dir, other).ok());
  if (device::detect_cpu_isa() == device::CpuIsa::kPortable) {
    GTEST_SKIP() << "this machine has one instruction set only";
  }
  other.max_isa = device::CpuIsa::kPortable;
  EXPECT_EQ(Engine::load(options_.output_dir, other).error().code, ErrorCode::kUnsupported);
  other.strict_device = false;
  EXPECT_TRUE(Engine::load(options_.output_dir, other).ok());
}

TEST_F(Build, ADifferentPromptLengthChangesDynamicFrequenciesOnlyBeyondTheOriginalLength) {
  models::ModelConfig config = tiny_config();
  config.rope.scaling = models::RopeScaling::kDynamic;
  config.rope.factor = 2.0f;
  config.max_position_embeddings = 32;
  config.rope.original_max_position_embeddings = 32;
  options_.checkpoint_dir = folder_.path() + "/dynamic";
  write_tiny_checkpoint(options_.checkpoint_dir, config, 1);
  ASSERT_TRUE(build_engine(options_).ok());
  const auto engine = load(options_.output_dir);
  const auto run_as = [&](int32_t prompt_length) {
    const std::vector<int32_t> blocks = blocks_from(0);
    const auto tokens = prompt(8);
    const SequenceInput sequence{8, 0, blocks.data(), prompt_length};
    const std::vector<int32_t> rows = {7};
    const auto logits = engine->run({tokens, {&sequence, 1}, rows});
    return std::vector<float>(logits->logits.begin(), logits->logits.end());
  };
  EXPECT_EQ(run_as(8), run_as(32));
  EXPECT_NE(run_as(8), run_as(33));
}

// A copy of the checkpoint whose linears hold random fp8 values: as fp8 with a scale of each row or
// one in all, or as the bfloat16 nearest to scale * code. `code` of matrix 0, row 0, column 3: as
// given.
void write_fp8_copy(const std::string& from, const std::string& to, bool as_fp8, bool per_tensor,
                    uint8_t code = 0x33) {
  const models::Architecture& architecture = *models::find_architecture("LlamaForCausalLM").value();
  const auto source = checkpoint::Checkpoint::open(from).value();
  const auto specs = architecture.weights(tiny_config());
  const auto type_of = [&](const models::WeightSpec& spec) {
    WeightType type{WeightFormat::kFloat32, spec.rows, spec.cols, 0, false};
    if (spec.kind == models::WeightKind::kLinear) {
      type.format = as_fp8 ? WeightFormat::kFloat8E4M3 : WeightFormat::kBFloat16;
      type.per_tensor = as_fp8 && per_tensor;
    }
    return type;
  };
  checkpoint::CheckpointWriter::Plan plan;
  for (const models::WeightSpec& spec : specs) {
    if (spec.kind == models::WeightKind::kVector) {
      plan.add_vector(spec.name, spec.rows);
    } else {
      plan.add_weight(spec.name, type_of(spec));
    }
  }
  auto writer = checkpoint::CheckpointWriter::create(to, plan, {}).value();
  for (const models::WeightSpec& spec : specs) {
    if (spec.kind == models::WeightKind::kVector) {
      ASSERT_TRUE(writer.write_vector(spec.name, source.vector(spec.name).value()).ok());
      continue;
    }
    const WeightView stored = source.weight(spec.name).value();
    if (spec.kind != models::WeightKind::kLinear) {
      ASSERT_TRUE(writer.write_weight(spec.name, stored).ok());
      continue;
    }
    std::vector<uint8_t> codes;
    std::vector<float> scales;
    std::vector<uint16_t> halves;
    for (int64_t row = 0; row < spec.rows; ++row) {
      scales.push_back(per_tensor ? 0.0031f : 0.001f * static_cast<float>(1 + row % 7));
      for (int64_t col = 0; col < spec.cols; ++col) {
        const float value = static_cast<const float*>(stored.data)[row * spec.cols + col];
        codes.push_back(row == 0 && col == 3 ? code : float_to_f8e4m3(value / scales.back()));
        halves.push_back(float_to_bf16(scales.back() * f8e4m3_to_float(codes.back())));
      }
    }
    WeightView view{type_of(spec), halves.data()};
    view.data = as_fp8 ? static_cast<const void*>(codes.data()) : halves.data();
    view.row_scales = scales.data();
    ASSERT_TRUE(writer.write_weight(spec.name, view).ok());
  }
  ASSERT_TRUE(writer.finish(models::to_checkpoint_json(tiny_config())).ok());
}

TEST_F(Build, Fp8OnProcessorsIsTheBFloat16NearestToScaleTimesCode) {
  const std::string source = options_.checkpoint_dir;
  for (const bool per_tensor : {true, false}) {
    std::vector<std::vector<float>> logits;
    for (const bool as_fp8 : {true, false}) {
      const std::string name =
          (as_fp8 ? "/fp8_" : "/bf16_") + std::string(per_tensor ? "tensor" : "row");
      options_.checkpoint_dir = folder_.path() + name;
      options_.output_dir = options_.checkpoint_dir + "_engine";
      write_fp8_copy(source, options_.checkpoint_dir, as_fp8, per_tensor);
      const auto built = build_engine(options_);
      ASSERT_TRUE(built.ok()) << built.error().message;
      logits.push_back(logits_of(*load(options_.output_dir), prompt(40), 40, blocks_from(0)));
    }
    EXPECT_EQ(logits[0], logits[1]);
    EXPECT_TRUE(std::all_of(logits[0].begin(), logits[0].end(),
                            [](float value) { return std::isfinite(value); }));
  }
}

TEST_F(Build, Fp8CodesThatAreNoNumbersAreRefusedByName) {
  const std::string source = options_.checkpoint_dir;
  for (const uint8_t code : {uint8_t{0x7f}, uint8_t{0xff}}) {
    options_.checkpoint_dir = folder_.path() + "/nan" + std::to_string(code);
    write_fp8_copy(source, options_.checkpoint_dir, true, false, code);
    const auto built = build_engine(options_);
    ASSERT_FALSE(built.ok());
    EXPECT_EQ(built.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(built.error().message.find("transformer.layers.0.attention.qkv.weight"),
              std::string::npos)
        << built.error().message;
    EXPECT_NE(built.error().message.find("which is NaN, at row 0, column 3"), std::string::npos);
    EXPECT_FALSE(fs::exists(options_.output_dir));
  }
}

}  // namespace
}  // namespace zonda
