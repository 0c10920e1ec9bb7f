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
  return text + (option.per_request ? " (r)\n" : "\n");
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

// Does something; rows without a text of their own are there for compatibility alone.
bool acts(const Option& option) {
  return option.effect != OptionEffect::kNothing && !option.help.empty();
}

bool is_refused(const Option& option) {
  return option.effect == OptionEffect::kRefused && !acts(option);
}
bool is_without_effect(const Option& option) { return option.effect == OptionEffect::kNothing; }

bool is_shown(const Option& option, std::string_view topic) {
  if (topic == "enable") {
    return acts(option);
  }
  return topic == "all" ||
         (heading(option) + explanation(option)).find(normal_name(topic)) != std::string::npos;
}

// Text for a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += c == '|' ? std::string("\\|") : std::string(1, c);
  }
  return result;
}

std::string markdown_row(const Option& option) {
  std::string names = fmt::format("`{}`", spelled(option.name));
  for (const std::string_view alias : split_words(option.aliases)) {
    names += fmt::format(", `{}`", spelled(alias));
  }
  Option shown = option;
  shown.default_text = {};
  return fmt::format("| {}{}{} | {}{} | {} |\n", names, option.value.empty() ? "" : " ",
                     cell(option.value), cell(explanation(shown)), option.per_request ? " (r)" : "",
                     cell(option.default_text));
}

// The rows that `belongs` picks, under a heading; empty if there are none.
std::string markdown_table(const Verb& verb, bool (*belongs)(const Option&),
                           std::string_view heading) {
  std::string rows;
  for (const OptionGroup& group : verb.options()) {
    for (const Option& option : group.options) {
      rows += belongs(option) ? markdown_row(option) : "";
    }
  }
  return rows.empty()
             ? rows
             : fmt::format("{}| option | meaning | default |\n|---|---|---|\n{}\n", heading, rows);
}

}  // namespace

std::string options_markdown() {
  std::string text;
  for (const Verb& verb : verbs()) {
    text += fmt::format("### zonda {}{}{}\n\n{}\n\n", verb.name, verb.operands.empty() ? "" : " ",
                        verb.operands, verb.summary);
    text += markdown_table(verb, acts, "");
    text += markdown_table(verb, is_refused,
                           "Known, and refused where they would change the result:\n\n");
    text += markdown_table(verb, is_without_effect, "Accepted, without effect here:\n\n");
  }
  return text;
}

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
