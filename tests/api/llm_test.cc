// Text in, text out: what goes to the executor, and what comes back as deltas.
// SPDX-License-Identifier: Apache-2.0
#include "zonda/llm.h"

#include <gtest/gtest.h>

#include "api/byte_tokenizer.h"
#include "api/llm_core.h"
#include "api/scripted_executor.h"

namespace zonda {
namespace {

using test::kBos;
using test::kEos;
using test::ScriptedExecutor;
using test::token_response;

// Writes "<s>[role]content" for each message; only the content is the user's.
class BracketRenderer : public api::ChatRenderer {
 public:
  Result<std::vector<text::Segment>> render(const ChatPrompt& prompt) const override {
    std::vector<text::Segment> segments = {{"<s>", true}};
    for (const ChatMessage& message : prompt.messages) {
      segments.push_back({"[" + message.role + "]", true});
      segments.push_back({message.content, false});
    }
    return segments;
  }
};

struct Fixture {
  ScriptedExecutor* executor = nullptr;  // owned by llm
  std::unique_ptr<Llm> llm;
};

Fixture make_fixture(bool with_tokenizer = true) {
  auto executor = std::make_unique<ScriptedExecutor>();
  Fixture fixture;
  fixture.executor = executor.get();
  api::ModelText text;
  text.folder = "model";
  if (with_tokenizer) {
    text.tokenizer = test::byte_tokenizer();
    text.chat = std::make_unique<BracketRenderer>();
  }
  text.generation.sampling.temperature = 0.6f;
  text.generation.sampling.top_p = 0.9f;
  text.generation.sampling.repetition_penalty = 1.1f;
  LlmInfo info;
  info.end_ids = {kEos};
  fixture.llm = api::make_llm(std::move(executor), std::move(text), std::move(info));
  return fixture;
}

// One response for each byte of `text`, then the end id.
std::vector<Response> script_of(std::string_view text) {
  std::vector<Response> script;
  for (const char byte : text) {
    script.push_back(token_response(static_cast<unsigned char>(byte)));
  }
  script.push_back(token_response(kEos, FinishReason::kEndId));
  return script;
}

std::vector<ResponseDelta> drain(ResponseStream& stream) {
  std::vector<ResponseDelta> all;
  while (!stream.is_done()) {
    Result<std::vector<ResponseDelta>> deltas = stream.next();
    EXPECT_TRUE(deltas.ok());
    if (!deltas) {
      break;
    }
    for (ResponseDelta& delta : *deltas) {
      all.push_back(std::move(delta));
    }
  }
  return all;
}

std::string joined(const std::vector<ResponseDelta>& deltas, int32_t sequence = 0) {
  std::string text;
  for (const ResponseDelta& delta : deltas) {
    text += delta.sequence_index == sequence ? delta.text : "";
  }
  return text;
}

std::vector<int32_t> joined_ids(const std::vector<ResponseDelta>& deltas) {
  std::vector<int32_t> ids;
  for (const ResponseDelta& delta : deltas) {
    ids.insert(ids.end(), delta.token_ids.begin(), delta.token_ids.end());
  }
  return ids;
}

GenerateRequest request_of(const std::string& prompt) {
  GenerateRequest request;
  request.prompt = prompt;
  return request;
}

TEST(Llm, StreamedDeltasJoinToTheWholeText) {
  Fixture fixture = make_fixture();
  const std::string text = "h\xc3\xa9llo \xf0\x9f\x98\x80 w\xe4\xb8\x96!";
  fixture.executor->script = script_of(text);
  auto stream = fixture.llm->generate(request_of("x"));
  ASSERT_TRUE(stream.ok());
  const std::vector<ResponseDelta> deltas = drain(**stream);
  EXPECT_EQ(joined(deltas), text);
  EXPECT_EQ(deltas.size(), text.size() + 1);
  EXPECT_TRUE(deltas.back().is_final);
  EXPECT_EQ(deltas.back().finish_reason, FinishReason::kEndId);
  EXPECT_EQ(joined_ids(deltas).back(), kEos);
  EXPECT_TRUE(fixture.executor->abandoned.empty());
}

TEST(Llm, ADeltaNeverHoldsPartOfACharacter) {
  Fixture fixture = make_fixture();
  fixture.executor->script = script_of("\xf0\x9f\x98\x80");
  auto stream = fixture.llm->generate(request_of("x"));
  ASSERT_TRUE(stream.ok());
  const std::vector<ResponseDelta> deltas = drain(**stream);
  EXPECT_EQ(deltas[0].text + deltas[1].text + deltas[2].text, "");
  EXPECT_EQ(deltas[3].text, "\xf0\x9f\x98\x80");
}

TEST(Llm, WithoutStreamingThereIsOneDelta) {
  Fixture fixture = make_fixture();
  fixture.executor->script = script_of("hello");
  GenerateRequest request = request_of("x");
  request.streaming = false;
  request.stop = {"zzz"};  // the executor then streams, the caller does not see it
  auto stream = fixture.llm->generate(request);
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE(fixture.executor->requests[0].streaming);
  const std::vector<ResponseDelta> deltas = drain(**stream);
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0].text, "hello");
  EXPECT_EQ(deltas[0].token_ids.size(), 6u);
  EXPECT_TRUE(deltas[0].is_final);
}

TEST(Llm, AStopTextEndsTheOutputWhereverTokensMeet) {
  Fixture fixture = make_fixture();
  fixture.executor->script = script_of("one, two, three");
  GenerateRequest request = request_of("x");
  request.stop = {"two", "three"};
  auto stream = fixture.llm->generate(request);
  ASSERT_TRUE(stream.ok());
  const std::vector<ResponseDelta> deltas = drain(**stream);
  EXPECT_EQ(joined(deltas), "one, ");
  EXPECT_EQ(deltas.back().finish_reason, FinishReason::kStopWords);
  EXPECT_EQ(deltas.back().stop_text, "two");
  EXPECT_TRUE(deltas.back().is_final);
  EXPECT_EQ(joined_ids(deltas).size(), std::string("one, two").size());
  EXPECT_EQ(fixture.executor->abandoned.size(), 1u);
}

TEST(Llm, AStopTextCanBeKept) {
  Fixture fixture = make_fixture();
  fixture.executor->script = script_of("one, two, three");
  GenerateRequest request = request_of("x");
  request.stop = {"two"};
  request.include_stop_str_in_output = true;
  auto stream = fixture.llm->generate(request);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(joined(drain(**stream)), "one, two");
}

TEST(Llm, AStopTextBeforeMinTokensHasNoEffect) {
  Fixture fixture = make_fixture();
  fixture.executor->script = script_of("abXab");
  GenerateRequest request = request_of("x");
  request.stop = {"ab"};
  request.sampling.min_tokens = 3;
  auto stream = fixture.llm->generate(request);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(joined(drain(**stream)), "abX");
}

TEST(Llm, WhatLooksLikeAStopTextIsGivenOutAtTheEnd) {
  Fixture fixture = make_fixture();
  fixture.executor->script = script_of("say sto");
  GenerateRequest request = request_of("x");
  request.stop = {"stop"};
  auto stream = fixture.llm->generate(request);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(joined(drain(**stream)), "say sto");
}

TEST(Llm, LogprobsStayOneToOneWithTokensWhenAStopTextCuts) {
  Fixture fixture = make_fixture();
  Response all;
  for (const char byte : std::string("abcd")) {
    all.token_ids.push_back(byte);
    all.logprobs.push_back({{byte, -0.5f}, 1, {}});
  }
  all.finish_reason = FinishReason::kLength;
  all.is_sequence_final = all.is_final = true;
  fixture.executor->script = {all};
  GenerateRequest request = request_of("x");
  request.stop = {"c"};
  auto stream = fixture.llm->generate(request);
  ASSERT_TRUE(stream.ok());
  const std::vector<ResponseDelta> deltas = drain(**stream);
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0].token_ids.size(), 3u);
  EXPECT_EQ(deltas[0].logprobs.size(), 3u);
  EXPECT_DOUBLE_EQ(deltas[0].cumulative_logprob, -1.5);
}

TEST(Llm, OneOfSeveralSequencesStopsAlone) {
  Fixture fixture = make_fixture();
  fixture.executor->script = {
      token_response('a', FinishReason::kNotFinished, 0),
      token_response('s', FinishReason::kNotFinished, 1),
      token_response('z', FinishReason::kNotFinished, 0),
      token_response('z', FinishReason::kNotFinished, 1),  // cut off already
      token_response('b', FinishReason::kCancelled, 1, false),
      token_response('c', FinishReason::kLength, 0, true)};
  GenerateRequest request = request_of("x");
  request.sampling.n = 2;
  request.stop = {"s"};
  auto stream = fixture.llm->generate(request);
  ASSERT_TRUE(stream.ok());
  const std::vector<ResponseDelta> deltas = drain(**stream);
  EXPECT_EQ(joined(deltas, 0), "azc");
  EXPECT_EQ(joined(deltas, 1), "");
  EXPECT_EQ(fixture.executor->cancelled_sequences, std::vector<int32_t>{1});
  EXPECT_TRUE(fixture.executor->abandoned.empty());
  EXPECT_TRUE(deltas.back().is_final);
}

TEST(Llm, DroppingAStreamCancelsTheRest) {
  Fixture fixture = make_fixture();
  fixture.executor->script = script_of("hello");
  {
    auto stream = fixture.llm->generate(request_of("x"));
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE((*stream)->next().ok());
  }
  EXPECT_EQ(fixture.executor->abandoned.size(), 1u);
}

TEST(Llm, AnErrorOfTheExecutorEndsTheStream) {
  Fixture fixture = make_fixture();
  Response broken;
  broken.error = internal_error("[test] broken.");
  fixture.executor->script = {token_response('a'), broken};
  auto stream = fixture.llm->generate(request_of("x"));
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE((*stream)->next().ok());
  const auto failed = (*stream)->next();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message, "[test] broken.");
  EXPECT_TRUE((*stream)->is_done());
}

TEST(Llm, ARefusalOfTheExecutorIsTheAnswer) {
  Fixture fixture = make_fixture();
  fixture.executor->refusal = over_capacity("[test] 27 of 16.");
  const auto stream = fixture.llm->generate(request_of("x"));
  ASSERT_FALSE(stream.ok());
  EXPECT_EQ(stream.error().code, ErrorCode::kCapacity);
}

TEST(Prompt, ATextGetsTheTokenizersSpecialTokensOnce) {
  Fixture fixture = make_fixture();
  GenerateRequest request = request_of("ab");
  ASSERT_TRUE(fixture.llm->generate(request).ok());
  request.add_special_tokens = false;
  ASSERT_TRUE(fixture.llm->generate(request).ok());
  EXPECT_EQ(fixture.executor->requests[0].input_token_ids, (std::vector<int32_t>{kBos, 'a', 'b'}));
  EXPECT_EQ(fixture.executor->requests[1].input_token_ids, (std::vector<int32_t>{'a', 'b'}));
}

TEST(Prompt, ATextSpellsSpecialTokensOnlyIfAllowed) {
  Fixture fixture = make_fixture();
  GenerateRequest request = request_of("</s>");
  request.add_special_tokens = false;
  ASSERT_TRUE(fixture.llm->generate(request).ok());
  request.parse_special = true;
  ASSERT_TRUE(fixture.llm->generate(request).ok());
  EXPECT_EQ(fixture.executor->requests[0].input_token_ids,
            (std::vector<int32_t>{'<', '/', 's', '>'}));
  EXPECT_EQ(fixture.executor->requests[1].input_token_ids, std::vector<int32_t>{kEos});
}

TEST(Prompt, AConversationHasTheBosOfItsTemplateAlone) {
  Fixture fixture = make_fixture();
  GenerateRequest request;
  request.prompt = ChatPrompt{{{"user", "<s>"}}, "", "", true};
  ASSERT_TRUE(fixture.llm->generate(request).ok());
  EXPECT_EQ(fixture.executor->requests[0].input_token_ids,
            (std::vector<int32_t>{kBos, '[', 'u', 's', 'e', 'r', ']', '<', 's', '>'}));
}

TEST(Prompt, ALongerPromptKeepsItsFirstTokens) {
  Fixture fixture = make_fixture();
  GenerateRequest request = request_of("abcdef");
  request.max_input_tokens = 3;
  ASSERT_TRUE(fixture.llm->generate(request).ok());
  EXPECT_EQ(fixture.executor->requests[0].input_token_ids, (std::vector<int32_t>{kBos, 'a', 'b'}));
}

TEST(Prompt, WithoutATokenizerOnlyIdsWork) {
  Fixture fixture = make_fixture(false);
  GenerateRequest request;
  request.prompt = std::vector<int32_t>{5, 6};
  fixture.executor->script = {token_response(7), token_response(8, FinishReason::kLength)};
  auto stream = fixture.llm->generate(request);
  ASSERT_TRUE(stream.ok());
  const std::vector<ResponseDelta> deltas = drain(**stream);
  EXPECT_EQ(joined_ids(deltas), (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(joined(deltas), "");
  GenerateRequest chat;
  chat.prompt = ChatPrompt{};
  for (const GenerateRequest& refused : {request_of("text"), chat}) {
    const auto answer = fixture.llm->generate(refused);
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(answer.error().message.find("tokenizer"), std::string::npos);
  }
  request.stop = {"x"};
  EXPECT_FALSE(fixture.llm->generate(request).ok());
  EXPECT_FALSE(fixture.llm->encode("x", true, false).ok());
}

TEST(Sampling, OnlyAConversationWithoutOptionsTakesTheModelsDefaults) {
  Fixture fixture = make_fixture();
  GenerateRequest chat;
  chat.prompt = ChatPrompt{{{"user", "hi"}}, "", "", true};
  ASSERT_TRUE(fixture.llm->generate(chat).ok());
  chat.sampling.temperature = 0.0f;
  ASSERT_TRUE(fixture.llm->generate(chat).ok());
  chat.sampling.temperature.reset();
  chat.use_model_defaults = false;
  ASSERT_TRUE(fixture.llm->generate(chat).ok());
  ASSERT_TRUE(fixture.llm->generate(request_of("hi")).ok());
  const SamplingParams& defaults = fixture.executor->requests[0].sampling;
  EXPECT_EQ(defaults.temperature, 0.6f);
  EXPECT_EQ(defaults.top_p, 0.9f);
  EXPECT_EQ(defaults.repetition_penalty, 1.1f);
  EXPECT_EQ(fixture.executor->requests[1].sampling.top_p, std::nullopt);
  EXPECT_TRUE(fixture.executor->requests[1].sampling.is_greedy());
  EXPECT_TRUE(fixture.executor->requests[2].sampling.is_greedy());
  EXPECT_TRUE(fixture.executor->requests[3].sampling.is_greedy());
  EXPECT_EQ(fixture.executor->requests[3].sampling.repetition_penalty, 1.0f);
}

TEST(Sampling, EndIdsAreTheModelsUnlessGiven) {
  Fixture fixture = make_fixture();
  GenerateRequest request = request_of("hi");
  ASSERT_TRUE(fixture.llm->generate(request).ok());
  request.end_ids = std::vector<int32_t>{9};
  ASSERT_TRUE(fixture.llm->generate(request).ok());
  EXPECT_EQ(fixture.executor->requests[0].end_ids, std::vector<int32_t>{kEos});
  EXPECT_EQ(fixture.executor->requests[1].end_ids, std::vector<int32_t>{9});
}

TEST(Sampling, ABadWordIsBannedAloneAndAfterABlank) {
  Fixture fixture = make_fixture();
  GenerateRequest request = request_of("hi");
  request.bad_words = {"no"};
  ASSERT_TRUE(fixture.llm->generate(request).ok());
  EXPECT_EQ(fixture.executor->requests[0].sampling.bad_words,
            (std::vector<std::vector<int32_t>>{{'n', 'o'}, {' ', 'n', 'o'}}));
}

TEST(Llm, ReasonsAreSpelledAsOpenAiDoes) {
  EXPECT_STREQ(finish_reason_spelling(FinishReason::kEndId), "stop");
  EXPECT_STREQ(finish_reason_spelling(FinishReason::kStopWords), "stop");
  EXPECT_STREQ(finish_reason_spelling(FinishReason::kLength), "length");
  EXPECT_STREQ(finish_reason_spelling(FinishReason::kCancelled), "cancelled");
  EXPECT_STREQ(finish_reason_spelling(FinishReason::kTimedOut), "cancelled");
}

}  // namespace
}  // namespace zonda
