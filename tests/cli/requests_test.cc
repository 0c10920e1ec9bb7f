// Requests from options and from the lines of a file.
// SPDX-License-Identifier: Apache-2.0
#include "cli/requests.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "cli/verb.h"
#include "test_support/temp_folder.h"

namespace zonda::cli {
namespace {

Arguments parsed(const std::vector<std::string>& words) {
  Result<Arguments> arguments = parse_arguments(run_options(), words);
  EXPECT_TRUE(arguments.ok()) << (arguments ? "" : arguments.error().message);
  return *arguments;
}

GenerateRequest line(const std::string& text, const std::vector<std::string>& words = {}) {
  Result<GenerateRequest> request = request_from_line(parsed(words), text, "file line 1");
  EXPECT_TRUE(request.ok()) << (request ? "" : request.error().message);
  return request ? *request : GenerateRequest{};
}

std::string line_refusal(const std::string& text) {
  const Result<GenerateRequest> request = request_from_line(parsed({}), text, "file line 1");
  return request ? "accepted" : request.error().message;
}

TEST(Requests, OptionsBecomeSamplingParameters) {
  const Result<GenerateRequest> request = request_from_options(parsed({"--temperature",
                                                                       "0.7",
                                                                       "--top_k",
                                                                       "40",
                                                                       "--top_p=0.9",
                                                                       "--min_p",
                                                                       "0.05",
                                                                       "--seed",
                                                                       "7",
                                                                       "--repetition_penalty",
                                                                       "1.1",
                                                                       "--presence_penalty",
                                                                       "0.5",
                                                                       "--frequency_penalty",
                                                                       "-0.5",
                                                                       "--no_repeat_ngram_size",
                                                                       "3",
                                                                       "--max_tokens",
                                                                       "1k",
                                                                       "--min_tokens",
                                                                       "2",
                                                                       "--ignore_eos",
                                                                       "--n",
                                                                       "3",
                                                                       "--logprobs",
                                                                       "5",
                                                                       "--prompt_logprobs",
                                                                       "0",
                                                                       "--stop_token_ids",
                                                                       "4,5",
                                                                       "--logit_bias",
                                                                       "7=-2.5",
                                                                       "--logit_bias",
                                                                       "8=-inf",
                                                                       "--stop",
                                                                       "END",
                                                                       "--bad_words",
                                                                       "no",
                                                                       "--end_id",
                                                                       "9",
                                                                       "--timeout_ms",
                                                                       "100",
                                                                       "--cache_salt",
                                                                       "s"}));
  ASSERT_TRUE(request.ok());
  const SamplingParams& sampling = request->sampling;
  EXPECT_EQ(sampling.temperature, 0.7f);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.top_p, 0.9f);
  EXPECT_EQ(sampling.min_p, 0.05f);
  EXPECT_EQ(sampling.seed, 7u);
  EXPECT_EQ(sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(sampling.presence_penalty, 0.5f);
  EXPECT_EQ(sampling.frequency_penalty, -0.5f);
  EXPECT_EQ(sampling.no_repeat_ngram_size, 3);
  EXPECT_EQ(sampling.max_tokens, 1000);
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.n, 3);
  EXPECT_EQ(sampling.logprobs, 5);
  EXPECT_EQ(sampling.prompt_logprobs, 0);
  EXPECT_EQ(sampling.stop_words, (std::vector<std::vector<int32_t>>{{4}, {5}}));
  ASSERT_EQ(sampling.logit_bias.size(), 2u);
  EXPECT_EQ(sampling.logit_bias[0], (LogitBias{7, -2.5f}));
  EXPECT_TRUE(std::isinf(sampling.logit_bias[1].bias));
  EXPECT_EQ(request->stop, std::vector<std::string>{"END"});
  EXPECT_EQ(request->bad_words, std::vector<std::string>{"no"});
  EXPECT_EQ(request->end_ids, std::vector<int32_t>{9});
  EXPECT_EQ(request->allotted_ms, 100);
  EXPECT_EQ(request->cache_salt, "s");
}

TEST(Requests, WithoutOptionsEverythingIsTheLibrarysDefault) {
  const Result<GenerateRequest> request = request_from_options(parsed({}));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->sampling, SamplingParams{});
  EXPECT_EQ(request->end_ids, std::nullopt);
  EXPECT_FALSE(request->streaming);
}

TEST(Requests, AWrongBiasIsRefused) {
  for (const char* bias : {"7", "x=1", "7=x", "-1=2", "=", "7="}) {
    EXPECT_FALSE(request_from_options(parsed({"--logit_bias", bias})).ok()) << bias;
  }
}

TEST(RequestLine, APlainLineIsAText) {
  EXPECT_EQ(std::get<std::string>(line("Hello {world}").prompt), "Hello {world}");
  EXPECT_EQ(std::get<ChatPrompt>(line("Hi", {"--chat"}).prompt).messages[0].content, "Hi");
}

TEST(RequestLine, AnObjectHasItsPromptAndItsOptions) {
  const GenerateRequest request = line(
      R"({"prompt": "Hi", "max_output_len": 3, "temperature": 0, "ignore_eos": true, "stop": ["a", "b"],
          "logit_bias": {"7": 100.0}, "stop_token_ids": [4, 5], "top_k": null})",
      {"--temperature", "0.9", "--top_p", "0.5"});
  EXPECT_EQ(std::get<std::string>(request.prompt), "Hi");
  EXPECT_EQ(request.sampling.max_tokens, 3);
  EXPECT_EQ(request.sampling.temperature, 0.0f);
  EXPECT_EQ(request.sampling.top_p, 0.5f);
  EXPECT_TRUE(request.sampling.ignore_eos);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.sampling.logit_bias[0], (LogitBias{7, 100.0f}));
  EXPECT_EQ(request.sampling.stop_words.size(), 2u);
}

TEST(RequestLine, IdsAndConversationsArePromptsToo) {
  EXPECT_EQ(std::get<std::vector<int32_t>>(line(R"({"input_ids": [1, 2]})").prompt),
            (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(std::get<std::vector<int32_t>>(line(R"({"prompt": [1, 2]})").prompt),
            (std::vector<int32_t>{1, 2}));
  const GenerateRequest chat = line(R"({"messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_NE(std::get<ChatPrompt>(chat.prompt).messages_json.find("Hi"), std::string::npos);
}

TEST(RequestLine, ErrorsNameLineAndKey) {
  const auto named = [](const std::string& text, std::string_view part) {
    const std::string message = line_refusal(text);
    return message.find("file line 1") != std::string::npos &&
           message.find(part) != std::string::npos;
  };
  EXPECT_TRUE(named(R"({"prompt": "x", "temprature": 1})", "temperature"));
  EXPECT_TRUE(named(R"({"prompt": "x", "temperature": "hot"})", "temperature"));
  EXPECT_TRUE(named(R"({"prompt": "x", "temperature": [1]})", "temperature"));
  EXPECT_TRUE(named(R"({"prompt": "x", "top_p": 2})", "top_p"));
  EXPECT_TRUE(named(R"({"prompt": "x", "threads": 2})", "threads"));
  EXPECT_TRUE(named(R"({"prompt": "x", "num_beams": 2})", "num_beams"));
  EXPECT_TRUE(named(R"({"temperature": 1})", "prompt"));
  EXPECT_TRUE(named(R"({"prompt": "x", "input_ids": [1]})", "2"));
  EXPECT_TRUE(named(R"({"messages": "x"})", "messages"));
  EXPECT_TRUE(named(R"({"prompt": "x")", "line"));
}

TEST(RequestFile, LinesAreRequestsInOrderAndBlankOnesNone) {
  const TempFolder folder;
  const std::string path = folder.path() + "/r.txt";
  ASSERT_TRUE(write_file(path, "one\r\n\n{\"prompt\": \"two\"}\nthree").ok());
  const Result<std::vector<GenerateRequest>> requests =
      collect_requests(parsed({"--input_file", path, "--input_text", "zero", "--batch_size", "2"}));
  ASSERT_TRUE(requests.ok());
  std::vector<std::string> texts;
  for (const GenerateRequest& request : *requests) {
    texts.push_back(std::get<std::string>(request.prompt));
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"zero", "zero", "one", "one", "two", "two", "three",
                                             "three"}));
}

TEST(RequestFile, ABrokenLineIsNamedByNumber) {
  const TempFolder folder;
  const std::string path = folder.path() + "/r.jsonl";
  ASSERT_TRUE(write_file(path, "{\"prompt\": \"a\"}\n{\"promt\": \"b\"}\n").ok());
  const auto requests = collect_requests(parsed({"--input_file", path}));
  ASSERT_FALSE(requests.ok());
  EXPECT_NE(requests.error().message.find("line 2"), std::string::npos);
  EXPECT_EQ(collect_requests(parsed({"--input_file", folder.path() + "/none"})).error().code,
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace zonda::cli
