// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <fmt/core.h>

namespace zonda::cli {
namespace {

constexpr size_t kIndent = 6;
constexpr size_t kWidth = 100;

// The text in lines of kWidth, each indented.
std::string wrapped(std::string_view text) {
  std::string result;
  std::string line(kIndent, ' ');
  for (const std::string_view word : split_words(text)) {
    if (line.size() + 1 + word.size() > kWidth && line.size() > kIndent) {
      result += line + "\n";
      line.assign(kIndent, ' ');
    }
    if (line.size() > kIndent) {
      line += ' ';
    }
    line += word;
  }
  return result + line + "\n";
}

std::string spelled(std::string_view name) {
  return fmt::format("{}{}", name.size() <= 2 ? "-" : "--", name);
}

std::string heading(const Option& option) {
  std::string text = fmt::format("  {}", spelled(option.name));
  for (const std::string_view alias : split_words(option.aliases)) {
    text += fmt::format(", {}", spelled(alias));
  }
  if (!option.value.empty()) {
    text += fmt::format(" {}", option.value);
  } else if (option.type == OptionType::kPlugin) {
    text += " [enable|disable|auto|DTYPE]";
  }
  return text + "\n";
}

std::string explanation(const Option& option) {
  std::string text(option.help);
  const auto add = [&](std::string_view part) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", part);
  };
  if (!option.choices.empty()) {
    add(fmt::format("One of: {}.", option.choices));
  }
  if (option.effect == OptionEffect::kNothing) {
    add(fmt::format("Means nothing here: {}.", option.reason));
  }
  if (option.effect == OptionEffect::kRefused) {
    add(option.supported.empty() ? fmt::format("Not supported: {}.", option.reason)
                                 : fmt::format("Only {}: {}.", option.supported, option.reason));
  }
  if (option.repeatable) {
    add("Repeatable.");
  }
  if (!option.default_text.empty()) {
    add(fmt::format("[{}]", option.default_text));
  }
  return text;
}

bool is_shown(const Option& option, std::string_view topic) {
  if (topic == "enable") {
    return option.effect == OptionEffect::kActs;
  }
  return topic == "all" ||
         (heading(option) + explanation(option)).find(normal_name(topic)) != std::string::npos;
}

}  // namespace

std::string program_help() {
  std::string text =
      "usage: zonda VERB [options]\n\n"
      "Compiles a language model for this machine and runs it.\n\n";
  for (const Verb& verb : verbs()) {
    text += fmt::format("  {:<10} {}\n", verb.name, verb.summary);
  }
  return text +
         "\n`zonda VERB --help` lists its options, `--help=all` also those kept for "
         "compatibility,\n"
         "`--help=WORD` those that mention a word. Under the names trtllm-build and\n"
         "convert_checkpoint the program is the verb build or convert.\n"
         "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.\n";
}

std::string verb_help(const Verb& verb, std::string_view topic) {
  std::string text =
      fmt::format("usage: zonda {} {}[options]\n\n{}\n", verb.name,
                  verb.operands.empty() ? "" : fmt::format("{} ", verb.operands), verb.summary);
  for (const OptionGroup& group : verb.options()) {
    std::string rows;
    for (const Option& option : group.options) {
      if (is_shown(option, topic)) {
        rows += heading(option) + wrapped(explanation(option));
      }
    }
    if (!rows.empty()) {
      text += fmt::format("\n{}:\n{}", group.title, rows);
    }
  }
  return text;
}

}  // namespace zonda::cli
