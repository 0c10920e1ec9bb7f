// What is printed: tables, escaped messages, .npy files, answers.
// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "base/json.h"
#include "cli/answer.h"
#include "cli/npy.h"
#include "cli/run_figures.h"
#include "cli/table.h"
#include "test_support/temp_folder.h"

namespace zonda::cli {
namespace {

TEST(Printable, ControlCharactersAndBrokenBytesAreEscaped) {
  EXPECT_EQ(printable("plain \xc3\xa9 \xf0\x9f\x98\x80\n"), "plain \xc3\xa9 \xf0\x9f\x98\x80\n");
  EXPECT_EQ(printable("\x1b[31m\xff\xc3"), "\\x1b[31m\\xff\\xc3");
  EXPECT_EQ(printable("\xed\xa0\x80\xc0\xaf\xf4\x90\x80\x80"),
            "\\xed\\xa0\\x80\\xc0\\xaf\\xf4\\x90\\x80\\x80");
}

TEST(Table, ColumnsLineUp) {
  TextTable table({"name", "n"});
  table.add({"\xc3\xa9", "12"});
  EXPECT_EQ(table.text(), "name   n\n\xc3\xa9     12\n");
}

TEST(Npy, HeaderAndDataAreThoseOfNumpy) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.npy";
  const std::vector<float> values = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
  ASSERT_TRUE(write_npy(path, values, 2, 3).ok());
  const std::string file = *read_file(path);
  EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const size_t header =
      static_cast<unsigned char>(file[8]) + 256u * static_cast<unsigned char>(file[9]);
  EXPECT_EQ((10 + header) % 64, 0u);
  EXPECT_EQ(file.substr(10, 60), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ");
  EXPECT_EQ(file[10 + header - 1], '\n');
  ASSERT_EQ(file.size(), 10 + header + 24);
  EXPECT_EQ(std::memcmp(file.data() + 10 + header, values.data(), 24), 0);
}

ResponseDelta delta_of(std::string text, std::vector<int32_t> ids, int32_t sequence,
                       FinishReason reason) {
  ResponseDelta delta;
  delta.text = std::move(text);
  delta.token_ids = std::move(ids);
  delta.sequence_index = sequence;
  delta.finish_reason = reason;
  delta.timings.first_token_ms = 10.0;
  delta.timings.last_token_ms = 20.0;
  return delta;
}

TEST(Answer, DeltasJoinSequenceBySequence) {
  Answer answer;
  take_delta(answer, delta_of("a", {1}, 0, FinishReason::kNotFinished));
  take_delta(answer, delta_of("x", {7}, 1, FinishReason::kLength));
  take_delta(answer, delta_of("b", {2, 3}, 0, FinishReason::kEndId));
  EXPECT_EQ(answer.choices[0].text, "ab");
  EXPECT_EQ(answer.choices[0].ids, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(answer.choices[1].finish_reason, FinishReason::kLength);
  EXPECT_EQ(answer.output_tokens(), 4u);
}

TEST(Answer, JsonHasTheFieldsOfTheContract) {
  Answer answer;
  answer.prompt_ids = {5, 6};
  take_delta(answer, delta_of("ab", {1, 2, 3}, 0, FinishReason::kEndId));
  SamplingParams asked;
  const Json json = *parse_json(answer_json(answer, asked, 3.0, ""), "answer");
  EXPECT_EQ(json["prompt_ids"], Json({5, 6}));
  EXPECT_EQ(json["ids"], Json({1, 2, 3}));
  EXPECT_EQ(json["text"], "ab");
  EXPECT_EQ(json["finish_reason"], "stop");
  EXPECT_EQ(json["engine_reason"], "end_id");
  EXPECT_TRUE(json["logprobs"].is_null());
  EXPECT_EQ(json["timings"]["output_tokens"], 3);
  EXPECT_DOUBLE_EQ(json["timings"]["decode_tok_s"], 200.0);
  EXPECT_FALSE(json.contains("choices"));
  asked.n = 2;
  asked.logprobs = 0;
  const Json several = *parse_json(answer_json(answer, asked, 3.0, "{\"x\":1}"), "answer");
  EXPECT_TRUE(several["choices"].is_array());
  EXPECT_TRUE(several["logprobs"].is_array());
  EXPECT_EQ(several["profiling"]["x"], 1);
}

TEST(Figures, RatesCountTheTokensAfterEachFirstOne) {
  LlmInfo info;
  info.load_ms = 5.0;
  info.threads = 2;
  info.instruction_set = "avx2";
  std::vector<Answer> answers(2);
  answers[0].prompt_ids = {1, 2};
  answers[1].prompt_ids = {3};
  take_delta(answers[0], delta_of("", {1, 2, 3}, 0, FinishReason::kLength));
  take_delta(answers[1], delta_of("", {1, 2, 3}, 0, FinishReason::kLength));
  EXPECT_EQ(figures_line(info, answers),
            "load 5 ms, first token 10.0 ms, prompt 3 tokens, output 6 tokens, 400.0 tok/s, 2 "
            "threads, avx2");
}

TEST(Figures, StepsWithPromptsAreApartFromStepsThatOnlyGenerate) {
  std::vector<IterationStats> steps(4);
  steps[0].context_tokens = 10;
  steps[0].latency_ms = 5.0;
  for (size_t i = 1; i < 4; ++i) {
    steps[i].generation_requests = 2;
    steps[i].latency_ms = static_cast<double>(i);
  }
  const Profiling profiling = make_profiling(steps, {}, 11.0);
  EXPECT_EQ(profiling.prefill.tokens, 10);
  EXPECT_DOUBLE_EQ(profiling.prefill.tokens_per_s(), 2000.0);
  EXPECT_EQ(profiling.decode.steps, 3);
  EXPECT_EQ(profiling.decode.tokens, 6);
  EXPECT_DOUBLE_EQ(profiling.decode.median_ms, 2.0);
  EXPECT_DOUBLE_EQ(profiling.decode.tokens_per_s(), 1000.0);
}

}  // namespace
}  // namespace zonda::cli
