// SPDX-License-Identifier: Apache-2.0
#include "engine/plan.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "base/file.h"
#include "engine/engine_file.h"
#include "engine/rotary_frequencies.h"
#include "engine/tactics.h"
#include "test_support/temp_folder.h"

namespace zonda::engine {
namespace {

constexpr int64_t kWeightsBytes = 65536;

// embedding -> norm -> select -> head over one matrix; not a real model, but a lawful plan.
EnginePlan small_plan() {
  EnginePlan plan;
  plan.device_fingerprint = "cpu; test";
  plan.pretrained_config = {{"architecture", "Test"}};
  plan.limits = {4, 63, 64, 16, 1, 8};
  plan.kv = {DType::kFloat32, 1, 1, 8, 8};
  plan.rotary.rotary_dim = 8;
  plan.rotary.inv_freq = {1.0f, 0.1f, 0.01f, 0.001f};
  plan.num_heads = 2;
  plan.vocab_size = 32;
  const kernels::PackedType packed{{WeightFormat::kFloat32, 32, 32, 0, false},
                                   kernels::RowOrder::kStacked};
  plan.matrices = {{{"table"}, packed, 0, kernels::packed_bytes(packed)}};
  plan.vectors = {{{"norm"}, 32, 8192}};
  plan.slots = {{32, false}, {32, true}, {32, true}};
  LinearCall head;
  head.x = 1;
  head.y = 2;
  head.matrix = 0;
  head.tactics.fill("reference");
  plan.calls = {{"embedding", EmbeddingCall{0, 0}},
                {"norm", RmsNormCall{0, 0, 0, 1e-5f}},
                {"select", SelectCall{0, 1}},
                {"head", head}};
  plan.logits_slot = 2;
  return plan;
}

TEST(Plan, JsonRoundTripsExactly) {
  const Json json = plan_to_json(small_plan());
  const EnginePlan again = plan_from_json(json).value();
  EXPECT_EQ(plan_to_json(again), json);
  EXPECT_TRUE(check_plan(again, kWeightsBytes).ok());
}

TEST(Plan, MissingAndWrongFieldsAreRefusedByName) {
  Json json = plan_to_json(small_plan());
  json["limits"].erase("max_seq_len");
  EXPECT_NE(plan_from_json(json).error().message.find("max_seq_len"), std::string::npos);
  json = plan_to_json(small_plan());
  json["num_heads"] = 99999999999;
  EXPECT_NE(plan_from_json(json).error().message.find("num_heads"), std::string::npos);
  json = plan_to_json(small_plan());
  json["calls"][0]["call"]["op"] = "teleport";
  EXPECT_NE(plan_from_json(json).error().message.find("no known kernel call"), std::string::npos);
  EXPECT_FALSE(plan_from_json(Json::array()).ok());
}

TEST(Plan, EveryBrokenLawIsRefused) {
  const std::vector<std::function<void(EnginePlan&)>> faults = {
      [](EnginePlan& p) { p.limits.max_num_tokens = 0; },
      [](EnginePlan& p) { p.limits.max_input_len = 65; },
      [](EnginePlan& p) { p.kv.num_layers = 0; },
      [](EnginePlan& p) { p.kv.dtype = DType::kInt8; },
      [](EnginePlan& p) { p.kv.num_kv_heads = 3; },
      [](EnginePlan& p) { p.rotary.rotary_dim = 16; },
      [](EnginePlan& p) { p.rotary.inv_freq.pop_back(); },
      [](EnginePlan& p) { p.rotary.ntk_factor = 2.0f; },
      [](EnginePlan& p) { p.matrices[0].offset = -64; },
      [](EnginePlan& p) { p.matrices[0].offset = 32; },
      [](EnginePlan& p) { p.matrices[0].offset = kWeightsBytes; },
      [](EnginePlan& p) { p.matrices[0].bytes += 64; },
      [](EnginePlan& p) { p.matrices[0].packed.type.rows = 1 << 30; },
      [](EnginePlan& p) { p.matrices[0].packed.type.group_size = 33; },
      [](EnginePlan& p) { p.matrices[0].packed.type.format = WeightFormat::kFloat8E4M3; },
      [](EnginePlan& p) { p.vectors[0].size = 0; },
      [](EnginePlan& p) { p.vectors[0].offset = kWeightsBytes - 64; },
      [](EnginePlan& p) { p.slots[0].columns = 0; },
      [](EnginePlan& p) { p.slots[1].columns = 31; },
      [](EnginePlan& p) { std::get<EmbeddingCall>(p.calls[0].call).matrix = 1; },
      [](EnginePlan& p) { std::get<EmbeddingCall>(p.calls[0].call).y = 1; },
      [](EnginePlan& p) { std::get<RmsNormCall>(p.calls[1].call).vector = -1; },
      [](EnginePlan& p) { std::get<SelectCall>(p.calls[2].call).y = 0; },
      [](EnginePlan& p) { std::get<LinearCall>(p.calls[3].call).y = 1; },
      [](EnginePlan& p) { std::get<LinearCall>(p.calls[3].call).x = 7; },
      [](EnginePlan& p) { std::get<LinearCall>(p.calls[3].call).bias = 3; },
      [](EnginePlan& p) {
        std::get<LinearCall>(p.calls[3].call).epilogue = kernels::Epilogue::kGatedSilu;
      },
      [](EnginePlan& p) {
        std::get<LinearCall>(p.calls[3].call).epilogue = kernels::Epilogue::kAddResidual;
      },
      [](EnginePlan& p) {
        p.calls.push_back({"rope", RopeAppendCall{1, 0, true, true}});
      },
      [](EnginePlan& p) {
        p.calls.push_back({"attention", AttentionCall{0, 0, 5, 1.0f, 0, 0.0f}});
      },
      [](EnginePlan& p) {
        p.calls.push_back({"add", AddCall{0, 1, 0}});
      },
      [](EnginePlan& p) {
        p.calls.push_back({"gated", GatedCall{0, 0, -1, false}});
      },
      [](EnginePlan& p) { p.logits_slot = 0; },
      [](EnginePlan& p) { p.vocab_size = 33; },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    EnginePlan plan = small_plan();
    faults[i](plan);
    const Result<void> checked = check_plan(plan, kWeightsBytes);
    ASSERT_FALSE(checked.ok()) << "fault " << i;
    EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt);
  }
}

std::string write_engine(const std::string& folder) {
  EngineFileWriter writer = EngineFileWriter::create(folder + "/rank0.engine").value();
  const std::vector<std::byte> weights(kWeightsBytes, std::byte{7});
  EXPECT_EQ(writer.append(weights).value(), 0);
  EXPECT_TRUE(writer.finish(small_plan()).ok());
  return folder + "/rank0.engine";
}

TEST(EngineFile, RoundTripsWithAlignedWeights) {
  const TempFolder folder;
  const std::string path = write_engine(folder.path());
  const EngineFile file = open_engine_file(folder.path(), true).value();
  EXPECT_EQ(plan_to_json(file.plan), plan_to_json(small_plan()));
  EXPECT_EQ(file.weights.size(), static_cast<size_t>(kWeightsBytes));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.weights.data()) % kWeightAlignment, 0u);
}

TEST(EngineFile, AnUnfinishedFileIsRemoved) {
  const TempFolder folder;
  { EngineFileWriter writer = EngineFileWriter::create(folder.path() + "/rank0.engine").value(); }
  EXPECT_EQ(open_engine_file(folder.path(), true).error().code, ErrorCode::kNotFound);
}

TEST(EngineFile, EveryFlippedByteOutsideThePaddingIsNoticed) {
  const TempFolder folder;
  const std::string path = write_engine(folder.path());
  const std::string good = read_file(path).value();
  std::vector<size_t> positions;
  for (size_t i = 0; i < 72; ++i) {
    positions.push_back(i);
  }
  for (size_t i = 4096; i < good.size(); i += 997) {
    positions.push_back(i);
  }
  for (const size_t position : positions) {
    std::string bad = good;
    bad[position] = static_cast<char>(bad[position] ^ 0x10);
    ASSERT_TRUE(write_file(path, bad).ok());
    EXPECT_FALSE(open_engine_file(path, true).ok()) << "byte " << position;
  }
}

TEST(EngineFile, TruncationAnywhereIsRefused) {
  const TempFolder folder;
  const std::string path = write_engine(folder.path());
  const std::string good = read_file(path).value();
  for (const size_t length :
       {size_t{0}, size_t{7}, size_t{71}, size_t{4096}, good.size() / 2, good.size() - 1}) {
    ASSERT_TRUE(write_file(path, good.substr(0, length)).ok());
    EXPECT_FALSE(open_engine_file(path, true).ok()) << length;
  }
}

TEST(EngineFile, AnotherVersionNamesBothAndTheRebuildCommand) {
  const TempFolder folder;
  const std::string path = write_engine(folder.path());
  std::string file = read_file(path).value();
  file[8] = 9;
  ASSERT_TRUE(write_file(path, file).ok());
  const Error error = open_engine_file(path, true).error();
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_NE(error.message.find("version 9"), std::string::npos);
  EXPECT_NE(error.message.find("zonda build"), std::string::npos);
}

TEST(TimingCache, RoundTripsAndRefusesOtherFiles) {
  const TempFolder folder;
  const std::string path = folder.path() + "/cache.json";
  EXPECT_EQ(TimingCache::load(path).value().size(), 0u);
  TimingCache cache;
  cache.put("key", {"gemv", 1e-6});
  ASSERT_TRUE(cache.save(path).ok());
  const TimingCache again = TimingCache::load(path).value();
  ASSERT_NE(again.find("key"), nullptr);
  EXPECT_EQ(again.find("key")->tactic, "gemv");
  ASSERT_TRUE(write_file(path, R"({"version": 99, "tactics": {}})").ok());
  EXPECT_FALSE(TimingCache::load(path).ok());
}

TEST(TokenBucket, BoundsBelongToTheLowerBucket) {
  const std::array<int64_t, 15> tokens = {1,  2,  8,   9,   16,   17,   32,    33,
                                          64, 65, 256, 257, 1024, 1025, 100000};
  const std::array<int32_t, 15> buckets = {0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(token_bucket(tokens[i]), buckets[i]) << tokens[i];
  }
}

// Names the number of tokens as the best tactic.
class CountingSource final : public TacticSource {
 public:
  explicit CountingSource(int64_t longest) : longest_(longest) {}
  std::string timing_key() const override { return "test"; }
  int64_t longest_sample() const override { return longest_; }
  bool has_tactic(const WeightType&, std::string_view) const override { return true; }
  std::string default_tactic(const kernels::PackedType&, int64_t) const override { return ""; }
  Result<TacticTime> fastest(const LinearSample&, int64_t tokens, int64_t& count) override {
    ++count;
    return TacticTime{std::to_string(tokens), 1.0};
  }

 private:
  int64_t longest_;
};

TEST(TacticTimer, LongStepsTakeTheTacticOfTheLongestTimedOne) {
  const std::byte copy{};
  const LinearSample sample{{{WeightFormat::kFloat32, 16, 16}}, {}, {&copy}};
  for (const int64_t longest : {int64_t{512}, int64_t{2048}}) {
    CountingSource source(longest);
    TimingCache cache;
    const BucketTimes times = TacticTimer(source, cache).choose(sample, 8192).value();
    EXPECT_EQ(times[3].tactic, "32");
    EXPECT_EQ(times[6].tactic, "512");
    EXPECT_EQ(times[7].tactic, std::to_string(longest));
    const BucketTimes few = TacticTimer(source, cache).choose(sample, 20).value();
    EXPECT_EQ(few[7].tactic, "32");
  }
}

TEST(RotaryFrequencies, OnlyPromptsBeyondTheThresholdChangeThem) {
  RotaryPlan plan;
  plan.rotary_dim = 8;
  plan.inv_freq = {1.0f, 0.1f, 0.01f, 0.001f};
  plan.threshold = 64;
  plan.ntk_base = 10000.0f;
  plan.ntk_factor = 2.0f;
  RotaryFrequencies frequencies(plan);
  frequencies.begin_step();
  EXPECT_EQ(frequencies.set_for(64), 0);
  EXPECT_EQ(frequencies.set_for(65), 1);
  EXPECT_EQ(frequencies.set_for(128), 2);
  EXPECT_EQ(frequencies.set_for(65), 1);
  // Twice the length with factor 2: base * 3^(8/6).
  const float base = static_cast<float>(10000.0 * std::pow(3.0, 8.0 / 6.0));
  EXPECT_FLOAT_EQ(frequencies.sets()[2 * 4 + 1], 1.0f / std::pow(base, 0.25f));
}

}  // namespace
}  // namespace zonda::engine
