// Chat templates.
// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "text/jinja/from_json.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"
#include "text/utf8.h"

namespace zonda::text {
namespace {

constexpr size_t kMaxSourceBytes = size_t{4} << 20;

Error to_error(const jinja::TemplateFault& fault) {
  if (fault.at.line == 0) {
    return make_error(fault.code, "[chat_template] {}.", fault.message);
  }
  return make_error(fault.code, "[chat_template] line {}, column {}: {}.", fault.at.line,
                    fault.at.column, fault.message);
}

jinja::Dict to_variables(const OrderedJson& variables, const RenderOptions& options) {
  if (!variables.is_object()) {
    jinja::fail("the variables of a template are not a JSON object");
  }
  const auto& trusted = options.trusted_variables;
  jinja::Dict dict;
  for (const auto& [name, value] : variables.items()) {
    const bool ours = std::find(trusted.begin(), trusted.end(), name) != trusted.end();
    dict.set(jinja::Value::text(name), jinja::from_json(value, ours));
  }
  return dict;
}

}  // namespace

struct ChatTemplate::Program {
  jinja::Block block;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return over_capacity("[chat_template] the template has {} bytes; the limit is {}.",
                         source.size(), kMaxSourceBytes);
  }
  if (!is_valid_utf8(source)) {
    return invalid_argument("[chat_template] the template is not valid UTF-8.");
  }
  try {
    auto program = std::make_unique<Program>(Program{jinja::parse_template(source)});
    return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(program)));
  } catch (const jinja::TemplateFault& fault) {
    return to_error(fault);
  }
}

Result<std::vector<Segment>> ChatTemplate::render(const OrderedJson& variables,
                                                  const RenderOptions& options) const {
  try {
    const jinja::Limits limits{options.max_output_bytes, options.max_steps, options.max_work_bytes};
    const std::tm* now = options.now.has_value() ? &*options.now : nullptr;
    jinja::Interpreter interpreter(program_->block, to_variables(variables, options), limits, now);
    const jinja::MarkedText text = interpreter.run();
    std::vector<Segment> segments;
    text.for_each_run([&](size_t begin, size_t end, bool from_template) {
      segments.push_back({text.bytes().substr(begin, end - begin), from_template});
    });
    return segments;
  } catch (const jinja::TemplateFault& fault) {
    return to_error(fault);
  }
}

std::string join_segments(const std::vector<Segment>& segments) {
  std::string text;
  for (const Segment& segment : segments) {
    text += segment.text;
  }
  return text;
}

}  // namespace zonda::text
