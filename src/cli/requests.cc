// SPDX-License-Identifier: Apache-2.0
#include "cli/requests.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/number.h"

namespace zonda::cli {
namespace {

template <typename T>
std::optional<T> narrowed(std::optional<int64_t> value) {
  if (!value) {
    return std::nullopt;
  }
  return static_cast<T>(std::min<int64_t>(*value, std::numeric_limits<T>::max()));
}

std::optional<float> optional_float(const Arguments& arguments, std::string_view name) {
  const std::optional<double> value = arguments.find_number(name);
  return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
}

// "17=-3.5", "17=-inf".
Result<LogitBias> parse_logit_bias(std::string_view text) {
  const size_t equals = text.find('=');
  const std::optional<int64_t> token = parse_integer(text.substr(0, equals));
  if (equals != std::string_view::npos && token && *token >= 0 && *token <= INT32_MAX) {
    const std::string_view bias = text.substr(equals + 1);
    if (bias == "-inf") {
      return LogitBias{static_cast<int32_t>(*token), -std::numeric_limits<float>::infinity()};
    }
    if (const std::optional<double> value = parse_number(bias)) {
      return LogitBias{static_cast<int32_t>(*token), static_cast<float>(*value)};
    }
  }
  return invalid_argument("[run] --logit_bias is '{}', which is not ID=X.", text);
}

Result<SamplingParams> sampling_from_options(const Arguments& arguments) {
  SamplingParams sampling;
  sampling.temperature = optional_float(arguments, "temperature");
  sampling.top_k = narrowed<int32_t>(arguments.find_integer("top_k"));
  sampling.top_p = optional_float(arguments, "top_p");
  sampling.min_p = optional_float(arguments, "min_p");
  if (const std::optional<int64_t> seed = arguments.find_integer("random_seed")) {
    sampling.seed = static_cast<uint64_t>(*seed);
  }
  sampling.repetition_penalty = static_cast<float>(arguments.number("repetition_penalty"));
  sampling.presence_penalty = static_cast<float>(arguments.number("presence_penalty"));
  sampling.frequency_penalty = static_cast<float>(arguments.number("frequency_penalty"));
  sampling.no_repeat_ngram_size =
      narrowed<int32_t>(arguments.integer("no_repeat_ngram_size")).value();
  for (const std::string& text : arguments.texts("logit_bias")) {
    Result<LogitBias> bias = parse_logit_bias(text);
    if (!bias) {
      return bias.error();
    }
    sampling.logit_bias.push_back(*bias);
  }
  sampling.max_tokens = narrowed<int32_t>(arguments.find_integer("max_output_len"));
  sampling.min_tokens = narrowed<int32_t>(arguments.integer("min_tokens")).value();
  sampling.ignore_eos = arguments.flag("ignore_eos");
  for (const int32_t id : arguments.ids("stop_token_ids")) {
    sampling.stop_words.push_back({id});
  }
  sampling.n = narrowed<int32_t>(arguments.integer("num_return_sequences")).value();
  sampling.logprobs = narrowed<int32_t>(arguments.find_integer("logprobs"));
  sampling.prompt_logprobs = narrowed<int32_t>(arguments.find_integer("prompt_logprobs"));
  return sampling;
}

// The text of a JSON scalar as it would stand on the command line; nullopt for other values.
std::optional<std::string> scalar_text(const Json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (value.is_boolean() || value.is_number()) {
    return dump_json(value);
  }
  return std::nullopt;
}

// The values of a key, as the command line would repeat them. An array of ids is one value.
std::optional<std::vector<std::string>> option_values(const Option& option, const Json& value) {
  std::vector<std::string> values;
  if (value.is_object() && option.name == "logit_bias") {
    for (const auto& [token, bias] : value.items()) {
      values.push_back(token + "=" + dump_json(bias));
    }
    return values;
  }
  if (!value.is_array()) {
    const std::optional<std::string> text = scalar_text(value);
    return text ? std::optional(std::vector{*text}) : std::nullopt;
  }
  if (!option.repeatable && option.type != OptionType::kIds) {
    return std::nullopt;
  }
  std::string joined;
  for (const Json& element : value) {
    const std::optional<std::string> text = scalar_text(element);
    if (!text) {
      return std::nullopt;
    }
    joined += (joined.empty() ? "" : ",") + *text;
    values.push_back(*text);
  }
  return option.type == OptionType::kIds ? std::vector{joined} : values;
}

Result<void> set_key(const std::string& key, const Json& value, std::string_view where,
                     Arguments& line) {
  const Option* option = find_option(line.table(), key);
  if (option == nullptr || !option->per_request) {
    const std::string nearest = nearest_name(line.table(), key);
    return invalid_argument("[run] {}: '{}' is not an option of a request{}.", where, key,
                            nearest.empty() ? "" : "; the nearest is '" + nearest + "'");
  }
  if (value.is_null()) {
    return {};
  }
  const std::optional<std::vector<std::string>> values = option_values(*option, value);
  if (!values) {
    return invalid_argument("[run] {}: '{}' is {}, which is no value of that option.", where, key,
                            dump_json(value));
  }
  for (const std::string& text : *values) {
    const Result<void> set = line.set(*option, text);
    if (!set) {
      return Error{set.error().code,
                   fmt::format("[run] {}: key '{}': {}", where, key, set.error().message)};
    }
  }
  return {};
}

// The options and the prompt of one JSON line.
struct Line {
  explicit Line(const OptionTable& table) : options(table) {}
  Arguments options;
  std::string messages_json;
  std::string tools_json;
};

Result<Line> parse_json_line(const OptionTable& table, std::string_view text,
                             std::string_view where) {
  Result<Json> json = parse_json(text, where);
  if (!json) {
    return json.error();
  }
  Line line(table);
  for (const auto& [key, value] : json->items()) {
    if (key == "messages" || key == "tools") {
      if (!value.is_array()) {
        return invalid_argument("[run] {}: '{}' is not an array.", where, key);
      }
      (key == "tools" ? line.tools_json : line.messages_json) = dump_json(value);
      continue;
    }
    const bool is_ids = (key == "prompt" || key == "input_text") && value.is_array();
    const Result<void> set = set_key(is_ids ? "input_ids" : key, value, where, line.options);
    if (!set) {
      return set.error();
    }
  }
  return line;
}

Result<void> set_text(GenerateRequest& request, const Arguments& options, std::string_view text) {
  if (options.flag("chat")) {
    request.prompt = chat_turn(options, text);
  } else {
    request.prompt = std::string(text);
  }
  return {};
}

Result<void> add_file(const Arguments& arguments, std::vector<GenerateRequest>& requests) {
  const std::string path = arguments.text("input_file");
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  if (path.ends_with(".npy")) {
    return unsupported(
        "[run] --input_file {}: .npy files are not read; give lines of text or JSON.", path);
  }
  size_t number = 0;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    ++number;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.find_first_not_of(" \t") == std::string_view::npos) {
      continue;
    }
    const std::string where = fmt::format("{} line {}", path, number);
    Result<GenerateRequest> request = request_from_line(arguments, line, where);
    if (!request) {
      return request.error();
    }
    requests.push_back(std::move(request).value());
  }
  return {};
}

}  // namespace

ChatPrompt chat_turn(const Arguments& arguments, std::string_view message) {
  ChatPrompt prompt;
  if (arguments.has("system_prompt")) {
    prompt.messages.push_back({"system", arguments.text("system_prompt")});
  }
  prompt.messages.push_back({"user", std::string(message)});
  return prompt;
}

Result<GenerateRequest> request_from_options(const Arguments& arguments) {
  GenerateRequest request;
  Result<SamplingParams> sampling = sampling_from_options(arguments);
  if (!sampling) {
    return sampling.error();
  }
  request.sampling = std::move(sampling).value();
  request.add_special_tokens = !arguments.flag("no_add_special_tokens");
  request.parse_special = arguments.flag("parse_special");
  request.max_input_tokens =
      narrowed<int32_t>(arguments.find_integer("max_input_length")).value_or(0);
  request.stop = arguments.texts("stop_words");
  request.include_stop_str_in_output = arguments.flag("include_stop_str_in_output");
  request.bad_words = arguments.texts("bad_words");
  if (arguments.has("end_id")) {
    request.end_ids = arguments.ids("end_id");
  }
  request.cache_salt = arguments.text("cache_salt");
  request.allotted_ms = arguments.integer("timeout_ms");
  request.streaming = arguments.flag("streaming");
  request.return_context_logits = arguments.has("output_logits_npy");
  return request;
}

Result<GenerateRequest> request_from_line(const Arguments& arguments, std::string_view text,
                                          std::string_view where) {
  Arguments options = arguments;
  const bool is_json = text[text.find_first_not_of(" \t")] == '{';
  std::string messages;
  std::string tools;
  std::vector<std::string> texts;
  if (is_json) {
    Result<Line> line = parse_json_line(arguments.table(), text, where);
    if (!line) {
      return line.error();
    }
    options.override_with(line->options);
    messages = line->messages_json;
    tools = line->tools_json;
    texts = line->options.texts("input_text");
    const size_t prompts =
        texts.size() + (line->options.has("input_ids") ? 1 : 0) + (messages.empty() ? 0 : 1);
    if (prompts != 1) {
      return invalid_argument(
          "[run] {}: it needs one of prompt, input_ids and messages, and has {}.", where, prompts);
    }
  }
  Result<GenerateRequest> request = request_from_options(options);
  if (!request) {
    return Error{request.error().code, fmt::format("{} ({})", request.error().message, where)};
  }
  if (!messages.empty()) {
    ChatPrompt prompt;
    prompt.messages_json = messages;
    prompt.tools_json = tools;
    request->prompt = std::move(prompt);
  } else if (!is_json || !texts.empty()) {
    const Result<void> set = set_text(*request, options, is_json ? texts[0] : text);
    if (!set) {
      return set.error();
    }
  } else {
    request->prompt = options.ids("input_ids");
  }
  return request;
}

Result<std::vector<GenerateRequest>> collect_requests(const Arguments& arguments) {
  Result<GenerateRequest> plain = request_from_options(arguments);
  if (!plain) {
    return plain.error();
  }
  std::vector<GenerateRequest> requests;
  for (const std::string& text : arguments.texts("input_text")) {
    GenerateRequest& request = requests.emplace_back(*plain);
    const Result<void> set = set_text(request, arguments, text);
    if (!set) {
      return set.error();
    }
  }
  for (const std::string& ids : arguments.texts("input_ids")) {
    requests.emplace_back(*plain).prompt = parse_ids(ids).value_or(std::vector<int32_t>{});
  }
  if (arguments.has("input_file")) {
    const Result<void> added = add_file(arguments, requests);
    if (!added) {
      return added.error();
    }
  }
  const int64_t times = arguments.integer("batch_size");
  std::vector<GenerateRequest> all;
  for (const GenerateRequest& request : requests) {
    all.insert(all.end(), static_cast<size_t>(times), request);
  }
  return all;
}

}  // namespace zonda::cli
