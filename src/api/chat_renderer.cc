// SPDX-License-Identifier: Apache-2.0
#include "api/chat_renderer.h"

#include <ctime>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "text/chat_template.h"

namespace zonda::api {
namespace {

constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};
constexpr const char* kDefaultName = "default";
constexpr const char* kToolsName = "tool_use";

using Templates = std::map<std::string, std::unique_ptr<text::ChatTemplate>>;

class TemplateRenderer : public ChatRenderer {
 public:
  TemplateRenderer(Templates templates, OrderedJson special_tokens)
      : templates_(std::move(templates)), special_tokens_(std::move(special_tokens)) {}

  Result<std::vector<text::Segment>> render(const ChatPrompt& prompt) const override {
    OrderedJson variables = special_tokens_;
    Result<OrderedJson> messages = messages_of(prompt);
    if (!messages) {
      return messages.error();
    }
    variables["messages"] = std::move(*messages);
    variables["tools"] = nullptr;
    variables["documents"] = nullptr;
    variables["add_generation_prompt"] = prompt.add_generation_prompt;
    if (!prompt.tools_json.empty()) {
      Result<OrderedJson> tools = parse_ordered_json(prompt.tools_json, "tools");
      if (!tools) {
        return tools.error();
      }
      variables["tools"] = std::move(*tools);
    }
    text::RenderOptions options;
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    if (localtime_r(&now, &local) != nullptr) {
      options.now = local;
    }
    return choose(!prompt.tools_json.empty()).render(variables, options);
  }

 private:
  static Result<OrderedJson> messages_of(const ChatPrompt& prompt) {
    if (!prompt.messages_json.empty()) {
      return parse_ordered_json(prompt.messages_json, "messages");
    }
    OrderedJson messages = OrderedJson::array();
    for (const ChatMessage& message : prompt.messages) {
      messages.push_back({{"role", message.role}, {"content", message.content}});
    }
    return messages;
  }

  const text::ChatTemplate& choose(bool with_tools) const {
    const auto tools = templates_.find(kToolsName);
    if (with_tools && tools != templates_.end()) {
      return *tools->second;
    }
    const auto usual = templates_.find(kDefaultName);
    return usual != templates_.end() ? *usual->second : *templates_.begin()->second;
  }

  Templates templates_;
  OrderedJson special_tokens_;
};

Result<void> add_template(const std::string& name, const std::string& source,
                          const std::string& where, Templates& templates) {
  Result<std::unique_ptr<text::ChatTemplate>> parsed = text::ChatTemplate::parse(source);
  if (!parsed) {
    return Error{parsed.error().code, fmt::format("{} ({})", parsed.error().message, where)};
  }
  templates[name] = std::move(*parsed);
  return {};
}

// tokenizer_config.json's chat_template: a text, or a list of named texts.
Result<void> add_configured(const Json& value, const std::string& where, Templates& templates) {
  if (value.is_string()) {
    return add_template(kDefaultName, value.get<std::string>(), where, templates);
  }
  if (value.is_array()) {
    for (const Json& item : value) {
      const bool named = item.is_object() && item.contains("name") && item["name"].is_string() &&
                         item.contains("template") && item["template"].is_string();
      if (!named) {
        return corrupt("[load] {}: an entry of chat_template has no name or no template.", where);
      }
      const Result<void> added = add_template(item["name"], item["template"], where, templates);
      if (!added) {
        return added;
      }
    }
    return {};
  }
  return corrupt("[load] {}: chat_template is neither a text nor a list.", where);
}

// "bos_token": "<s>" or {"content": "<s>", ...}.
OrderedJson special_tokens_of(const Json& config) {
  OrderedJson tokens = OrderedJson::object();
  for (const char* name : kSpecialTokens) {
    const auto found = config.find(name);
    if (found == config.end()) {
      continue;
    }
    if (found->is_string()) {
      tokens[name] = found->get<std::string>();
    } else if (found->is_object() && found->contains("content") &&
               (*found)["content"].is_string()) {
      tokens[name] = (*found)["content"].get<std::string>();
    }
  }
  return tokens;
}

}  // namespace

Result<std::unique_ptr<ChatRenderer>> make_chat_renderer(const TextFiles& files) {
  Json config = Json::object();
  const std::string config_path = files.folder + "/tokenizer_config.json";
  if (!files.tokenizer_config.empty()) {
    Result<Json> parsed = parse_json(files.tokenizer_config, config_path);
    if (!parsed) {
      return parsed.error();
    }
    config = std::move(*parsed);
  }
  Templates templates;
  Result<void> added;
  const auto configured = config.find("chat_template");
  if (!files.chat_template.empty()) {
    added = add_template(kDefaultName, files.chat_template, files.folder + "/chat_template.jinja",
                         templates);
  } else if (config.is_object() && configured != config.end() && !configured->is_null()) {
    added = add_configured(*configured, config_path, templates);
  }
  if (!added) {
    return added.error();
  }
  if (templates.empty()) {
    return std::unique_ptr<ChatRenderer>{};
  }
  return std::unique_ptr<ChatRenderer>(
      std::make_unique<TemplateRenderer>(std::move(templates), special_tokens_of(config)));
}

}  // namespace zonda::api
