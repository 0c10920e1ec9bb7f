// Text in, text out: a model from any of its forms, answering many requests at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zonda/error.h"
#include "zonda/executor.h"
#include "zonda/sampling.h"

namespace zonda {

struct LlmOptions {
  // Steps that are missing are done into this folder; empty: $XDG_CACHE_HOME/zonda or
  // ~/.cache/zonda.
  std::string cache_dir;
  std::string tokenizer_dir;  // tokenizer, template and generation settings; empty: the model's own
  // Of a checkpoint made on the way; see ConvertOptions.
  std::string dtype = "auto";
  std::string qformat = "none";
  int32_t group_size = 128;
  std::string device = "auto";  // of an engine made on the way; see BuildOptions
  // Limits, threads and memory; an engine made on the way is large enough for them.
  ExecutorConfig executor;
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", ...
  std::string content;
};

// A conversation for the model's chat template.
struct ChatPrompt {
  std::vector<ChatMessage> messages;
  std::string messages_json;  // instead: an array of messages as OpenAI's API has them
  std::string tools_json;     // an array of tool definitions, or empty
  bool add_generation_prompt = true;
};

struct GenerateRequest {
  // A text, token ids, or a conversation.
  std::variant<std::string, std::vector<int32_t>, ChatPrompt> prompt;
  bool add_special_tokens = true;  // of a text: what the tokenizer puts around it (BOS); a
                                   // conversation's template writes its own
  bool parse_special = false;      // of a text: whether it can spell special tokens
  int32_t max_input_tokens = 0;    // a longer prompt keeps its first tokens; 0: all or an error

  // A conversation with temperature, top_k, top_p and min_p all unset takes them, and an unset
  // repetition penalty, from the model's generation_config.json; any other request is greedy then.
  SamplingParams sampling;
  bool use_model_defaults = true;
  std::vector<std::string> stop;  // texts that end the output and are not part of it
  bool include_stop_str_in_output = false;
  std::vector<std::string> bad_words;           // texts that the output never contains
  std::optional<std::vector<int32_t>> end_ids;  // instead of the model's own
  bool skip_special_tokens = true;              // in the output text

  bool streaming = true;  // deltas as they come; false: one for each sequence at its end
  bool return_context_logits = false;
  std::string cache_salt;
  int64_t allotted_ms = 0;  // 0: unlimited
};

// News about one sequence. All texts, and all ids, of a sequence joined are its output.
struct ResponseDelta {
  int32_t sequence_index = 0;
  std::string text;  // valid UTF-8; empty without a tokenizer
  // The end id or stop text that ended the sequence is included here, but not in `text`.
  std::vector<int32_t> token_ids;
  std::vector<TokenLogprobs> logprobs;  // one for each of token_ids if asked
  double cumulative_logprob = 0.0;
  FinishReason finish_reason = FinishReason::kNotFinished;  // set in the sequence's last delta
  int32_t stop_token = -1;                                  // kEndId, kStopWords: the last token
  std::string stop_text;                                    // the entry of `stop` that matched
  bool is_final = false;                                    // the last delta of the request
  RequestTimings timings;

  // In the first delta of a request that asked for them.
  std::vector<TokenLogprobs> prompt_logprobs;
  std::vector<float> context_logits;  // [prompt tokens, vocab]
};

// The answer to one request; destroying it cancels what is left. One thread at a time.
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;
  // Waits for news, or until the time is over (then empty). After an error the request is over.
  virtual Result<std::vector<ResponseDelta>> next(Executor::Timeout timeout = {}) = 0;
  virtual bool is_done() const = 0;  // everything was returned
  // Ends it within a step; the deltas left say kCancelled.
  virtual void cancel() = 0;
  virtual const std::vector<int32_t>& prompt_token_ids() const = 0;
};

// What load() found and did.
struct LlmInfo {
  std::string model_path;   // as given
  std::string source_kind;  // "model folder", "GGUF file", "checkpoint", "engine"
  std::string engine_path;
  std::string architecture;
  std::vector<int32_t> end_ids;  // union of config, generation_config and tokenizer
  SamplingParams chat_defaults;  // of generation_config.json
  bool has_tokenizer = false;
  bool has_chat_template = false;
  int32_t threads = 0;
  std::string instruction_set;
  double load_ms = 0.0;  // of engine and tokenizer; steps done on the way come before
};

// All functions may be called from any thread.
class Llm {
 public:
  // `path`: a Hugging Face folder, a GGUF file, a checkpoint folder, an engine folder or file.
  // Missing steps are done once into the cache; the log says so.
  static Result<std::unique_ptr<Llm>> load(const std::string& path, const LlmOptions& options);
  virtual ~Llm() = default;  // every ResponseStream must be gone

  // kInvalidArgument, kCapacity: with field, value and limit. kUnsupported: a text or a
  // conversation without the tokenizer or the template it needs.
  virtual Result<std::unique_ptr<ResponseStream>> generate(const GenerateRequest& request) = 0;

  // kUnsupported without a tokenizer.
  virtual Result<std::vector<int32_t>> encode(std::string_view text, bool add_special_tokens,
                                              bool parse_special) const = 0;
  virtual Result<std::string> decode(const std::vector<int32_t>& ids,
                                     bool skip_special_tokens) const = 0;
  virtual Result<std::string> render_chat(const ChatPrompt& prompt) const = 0;

  virtual const LlmInfo& info() const = 0;
  virtual Executor& executor() = 0;
};

// "stop", "length" or "cancelled", as OpenAI's API and run.py spell it.
const char* finish_reason_spelling(FinishReason reason);

}  // namespace zonda
