// Requests become token ids and go to the executor; responses come back as text.
// SPDX-License-Identifier: Apache-2.0
#include "zonda/llm.h"

#include <algorithm>
#include <chrono>

#include "api/llm_core.h"
#include "api/prepare.h"
#include "api/response_stream.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/engine_info.h"

namespace zonda {
namespace api {
namespace {

Error no_tokenizer(const ModelText& text, std::string_view what) {
  return unsupported(
      "[generate] {} needs a tokenizer, and {} has no tokenizer.json; give token ids, or "
      "--tokenizer_dir.",
      what, text.folder);
}

bool has_sampling_option(const SamplingParams& sampling) {
  return sampling.temperature || sampling.top_k || sampling.top_p || sampling.min_p;
}

void take_defaults(SamplingParams& sampling, const SamplingParams& defaults) {
  sampling.temperature = defaults.temperature;
  sampling.top_k = defaults.top_k;
  sampling.top_p = defaults.top_p;
  sampling.min_p = defaults.min_p;
  if (sampling.repetition_penalty == 1.0f) {
    sampling.repetition_penalty = defaults.repetition_penalty;
  }
}

class LlmCore : public Llm {
 public:
  LlmCore(std::unique_ptr<Executor> executor, ModelText text, LlmInfo info)
      : executor_(std::move(executor)), text_(std::move(text)), info_(std::move(info)) {}
  ~LlmCore() override { executor_->shutdown(); }

  Result<std::unique_ptr<ResponseStream>> generate(const GenerateRequest& given) override {
    Result<std::vector<int32_t>> ids = prompt_ids(given);
    if (!ids) {
      return ids.error();
    }
    Request request;
    request.input_token_ids = std::move(ids).value();
    Result<SamplingParams> sampling = resolve_sampling(given);
    if (!sampling) {
      return sampling.error();
    }
    if (!given.stop.empty() && text_.tokenizer == nullptr) {
      return no_tokenizer(text_, "a stop text");
    }
    request.sampling = std::move(sampling).value();
    request.end_ids = given.end_ids ? *given.end_ids : info_.end_ids;
    request.streaming = given.streaming || !given.stop.empty();
    request.return_context_logits = given.return_context_logits;
    request.cache_salt = given.cache_salt;
    request.allotted_ms = given.allotted_ms;
    StreamOptions options{request.input_token_ids,
                          text_.tokenizer.get(),
                          given.skip_special_tokens,
                          given.stop,
                          given.include_stop_str_in_output,
                          request.sampling.min_tokens,
                          request.sampling.n,
                          given.streaming};
    Result<RequestId> id = executor_->enqueue(std::move(request));
    if (!id) {
      return id.error();
    }
    return make_stream(*executor_, *id, std::move(options));
  }

  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special_tokens,
                                      bool parse_special) const override {
    if (text_.tokenizer == nullptr) {
      return no_tokenizer(text_, "a text");
    }
    return text_.tokenizer->encode(text, {add_special_tokens, parse_special});
  }

  Result<std::string> decode(const std::vector<int32_t>& ids,
                             bool skip_special_tokens) const override {
    if (text_.tokenizer == nullptr) {
      return no_tokenizer(text_, "the text of token ids");
    }
    return text_.tokenizer->decode(ids, skip_special_tokens);
  }

  Result<std::string> render_chat(const ChatPrompt& prompt) const override {
    Result<std::vector<text::Segment>> segments = segments_of(prompt);
    if (!segments) {
      return segments.error();
    }
    std::string all;
    for (const text::Segment& segment : *segments) {
      all += segment.text;
    }
    return all;
  }

  const LlmInfo& info() const override { return info_; }
  Executor& executor() override { return *executor_; }

 private:
  Result<std::vector<text::Segment>> segments_of(const ChatPrompt& prompt) const {
    if (text_.chat == nullptr) {
      return unsupported(
          "[generate] a conversation needs a chat template, and {} has none; give the whole prompt "
          "as a text, or --tokenizer_dir.",
          text_.folder);
    }
    return text_.chat->render(prompt);
  }

  Result<std::vector<int32_t>> prompt_ids(const GenerateRequest& given) const {
    Result<std::vector<int32_t>> ids = untruncated_ids(given);
    if (ids && given.max_input_tokens > 0 &&
        ids->size() > static_cast<size_t>(given.max_input_tokens)) {
      ids->resize(static_cast<size_t>(given.max_input_tokens));
    }
    return ids;
  }

  Result<std::vector<int32_t>> untruncated_ids(const GenerateRequest& given) const {
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&given.prompt)) {
      return *ids;
    }
    if (text_.tokenizer == nullptr) {
      return no_tokenizer(text_, "a text prompt");
    }
    if (const auto* text = std::get_if<std::string>(&given.prompt)) {
      return encode(*text, given.add_special_tokens, given.parse_special);
    }
    Result<std::vector<text::Segment>> segments = segments_of(std::get<ChatPrompt>(given.prompt));
    if (!segments) {
      return segments.error();
    }
    return text_.tokenizer->encode_segments(*segments);
  }

  Result<SamplingParams> resolve_sampling(const GenerateRequest& given) const {
    SamplingParams sampling = given.sampling;
    if (given.use_model_defaults && std::holds_alternative<ChatPrompt>(given.prompt) &&
        !has_sampling_option(sampling)) {
      take_defaults(sampling, text_.generation.sampling);
    }
    for (const std::string& word : given.bad_words) {
      const Result<void> added = add_bad_word(word, sampling.bad_words);
      if (!added) {
        return added.error();
      }
    }
    return sampling;
  }

  // A word has other tokens at the start of a text than after a blank: both are banned.
  Result<void> add_bad_word(const std::string& word,
                            std::vector<std::vector<int32_t>>& bad_words) const {
    if (text_.tokenizer == nullptr) {
      return no_tokenizer(text_, "a bad word");
    }
    for (const std::string& form : {word, " " + word}) {
      Result<std::vector<int32_t>> ids = text_.tokenizer->encode(form);
      if (!ids) {
        return ids.error();
      }
      if (!ids->empty() && std::find(bad_words.begin(), bad_words.end(), *ids) == bad_words.end()) {
        bad_words.push_back(std::move(ids).value());
      }
    }
    return {};
  }

  std::unique_ptr<Executor> executor_;
  ModelText text_;
  LlmInfo info_;
};

// The union of what the configuration, generation_config.json and the tokenizer name.
std::vector<int32_t> union_of_end_ids(const Json& pretrained_config, const ModelText& text,
                                      int64_t vocab_size) {
  std::vector<int32_t> all;
  const auto found = pretrained_config.find("eos_token_id");
  if (found != pretrained_config.end()) {
    const Json list = found->is_array() ? *found : Json::array({*found});
    for (const Json& id : list) {
      if (id.is_number_integer()) {
        add_ids(all, {id.get<int32_t>()});
      }
    }
  }
  add_ids(all, text.generation.end_ids);
  if (text.tokenizer != nullptr) {
    add_ids(all, text.tokenizer->eos_token_ids());
  }
  std::erase_if(all, [&](int32_t id) { return id < 0 || id >= vocab_size; });
  std::sort(all.begin(), all.end());
  return all;
}

void fill_info(const runtime::EngineInfo& engine, const ModelText& text, LlmInfo& info) {
  const Json& config = engine.plan.pretrained_config;
  if (const auto found = config.find("architecture"); found != config.end() && found->is_string()) {
    info.architecture = found->get<std::string>();
  }
  info.end_ids = union_of_end_ids(config, text, engine.plan.vocab_size);
  info.chat_defaults = text.generation.sampling;
  info.has_tokenizer = text.tokenizer != nullptr;
  info.has_chat_template = text.chat != nullptr;
}

Result<ModelText> text_beside(const ModelSource& source, const std::string& engine_path,
                              const LlmOptions& options) {
  std::string folder = options.tokenizer_dir;
  if (folder.empty()) {
    folder = source.kind == SourceKind::kEngine ? source.folder : engine_path;
  }
  Result<TextFiles> files = read_text_files(folder);
  if (!files) {
    return files.error();
  }
  return load_model_text(*files);
}

}  // namespace

std::unique_ptr<Llm> make_llm(std::unique_ptr<Executor> executor, ModelText text, LlmInfo info) {
  return std::make_unique<LlmCore>(std::move(executor), std::move(text), std::move(info));
}

}  // namespace api

Result<std::unique_ptr<Llm>> Llm::load(const std::string& path, const LlmOptions& options) {
  Result<api::ModelSource> source = api::find_source(path);
  if (!source) {
    return source.error();
  }
  Result<std::string> engine_path = api::prepare_engine(*source, options);
  if (!engine_path) {
    return engine_path.error();
  }
  const auto start = std::chrono::steady_clock::now();
  Result<runtime::EngineInfo> engine = runtime::read_engine_info(*engine_path);
  if (!engine) {
    return engine.error();
  }
  Result<api::ModelText> text = api::text_beside(*source, *engine_path, options);
  if (!text) {
    return text.error();
  }
  Result<std::unique_ptr<Executor>> executor = Executor::load(*engine_path, options.executor);
  if (!executor) {
    return executor.error();
  }
  LlmInfo info;
  info.model_path = path;
  info.source_kind = api::source_kind_name(source->kind);
  info.engine_path = *engine_path;
  api::fill_info(*engine, *text, info);
  info.threads = (*executor)->limits().threads;
  info.instruction_set = (*executor)->limits().instruction_set;
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  info.load_ms = elapsed.count();
  return api::make_llm(std::move(*executor), std::move(*text), std::move(info));
}

const char* finish_reason_spelling(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndId:
    case FinishReason::kStopWords:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kTimedOut:
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kNotFinished:
      break;
  }
  return "not_finished";
}

}  // namespace zonda
