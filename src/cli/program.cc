// Chooses the verb, parses its options and turns the outcome into an exit code.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace zonda::cli {
namespace {

constexpr Option kCommon[] = {
    {.name = "log_level",
     .type = OptionType::kText,
     .value = "LEVEL",
     .help = "Lines on stderr from this level on.",
     .default_text = "info",
     .choices = "verbose info warning error internal_error silent"},
    {.name = "help",
     .type = OptionType::kText,
     .value = "[=all|=WORD]",
     .help = "This help; =all: every option; =WORD: the options that mention it.",
     .aliases = "h"},
};

constexpr std::array<Verb, 8> kVerbs = {{
    {"convert", "", "A Hugging Face folder or a GGUF file becomes a checkpoint folder.", 0,
     convert_options, run_convert},
    {"build", "[MODEL]", "A checkpoint or a model becomes an engine for this machine.", 1,
     build_options, run_build},
    {"run", "MODEL", "A model, checkpoint or engine answers prompts.", 1, run_options, run_run},
    {"tokenize", "MODEL", "Text becomes token ids.", 1, tokenize_options, run_tokenize},
    {"inspect", "MODEL", "What a model, checkpoint or engine is and needs.", 1, inspect_options,
     run_inspect},
    {"doctor", "", "What this machine can do and what is missing.", 0, doctor_options, run_doctor},
    {"profile", "ENGINE", "The time of each kernel of a step beside its floor.", 1, profile_options,
     run_profile},
    {"version", "", "The version.", 0, version_options, run_version},
}};

// "--help", "--help=WORD" or "-h" among the words: the topic; empty if there is none.
std::string help_topic(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") {
      break;
    }
    if (word == "--help" || word == "-h") {
      return "enable";
    }
    if (word.starts_with("--help=")) {
      return word.substr(std::string_view("--help=").size());
    }
  }
  return {};
}

int run_verb(const Verb& verb, const std::vector<std::string>& words) {
  if (const std::string topic = help_topic(words); !topic.empty()) {
    print_text(verb_help(verb, topic));
    return kExitDone;
  }
  Result<Arguments> arguments = parse_arguments(verb.options(), words);
  if (!arguments) {
    return report_usage(
        fmt::format("{} `zonda {} --help=all` lists all.", arguments.error().message, verb.name));
  }
  if (arguments->positionals().size() > verb.max_operands) {
    return report_usage(
        fmt::format("[{}] '{}' is one word too many: it takes {}. A text with blanks "
                    "needs quotes, and each text its own option.",
                    verb.name, arguments->positionals()[verb.max_operands],
                    verb.operands.empty() ? "options only" : verb.operands));
  }
  const Result<LogLevel> level = parse_log_level(arguments->text("log_level"));
  if (!level) {
    return report_usage(level.error().message);
  }
  set_log_level(*level);
  for (const Option* option : arguments->without_effect()) {
    log_info("--{} means nothing here: {}.", option->name, option->reason);
  }
  const int code = verb.run(*arguments);
  if (!flush_output() && code == kExitDone) {
    log_line(LogLevel::kError, "[zonda] standard output cannot be written.");
    return kExitFailed;
  }
  return code;
}

int run_named(const std::string& name, const std::vector<std::string>& words) {
  if (const Verb* verb = find_verb(name)) {
    return run_verb(*verb, words);
  }
  std::vector<std::string_view> names = {"help"};
  for (const Verb& verb : verbs()) {
    names.push_back(verb.name);
  }
  const std::string_view nearest = nearest_word(names, name);
  return report_usage(
      nearest.empty()
          ? fmt::format("[zonda] '{}' is not a verb; `zonda help` lists them.", name)
          : fmt::format("[zonda] '{}' is not a verb; the nearest is '{}'.", name, nearest));
}

int run_help(const std::vector<std::string>& words) {
  if (words == std::vector<std::string>{"--markdown"}) {  // for docs/cli.md
    print_text(options_markdown());
    return kExitDone;
  }
  const Verb* verb = words.empty() ? nullptr : find_verb(words[0]);
  if (!words.empty() && verb == nullptr) {
    return run_named(words[0], {});
  }
  print_text(verb == nullptr ? program_help()
                             : verb_help(*verb, words.size() > 1 ? words[1] : "enable"));
  return kExitDone;
}

}  // namespace

std::span<const Verb> verbs() { return kVerbs; }

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : kVerbs) {
    if (verb.name == name) {
      return &verb;
    }
  }
  return nullptr;
}

std::span<const Option> common_options() { return kCommon; }

int report_failure(const Error& error) {
  log_line(LogLevel::kError, printable(error.message));
  return error.code == ErrorCode::kCancelled ? kExitInterrupted : kExitFailed;
}

int report_usage(std::string_view message) {
  log_line(LogLevel::kError, printable(message));
  return kExitUsage;
}

int run_program(const std::vector<std::string>& words) {
  ignore_closed_pipes();
  const std::string path = words.empty() ? "zonda" : words[0];
  const std::string program = path.substr(path.find_last_of('/') + 1);
  std::vector<std::string> rest(words.begin() + (words.empty() ? 0 : 1), words.end());
  if (program == "trtllm-build" || program == "trtllm_build") {
    return run_named("build", rest);
  }
  if (program == "convert_checkpoint" || program == "convert_checkpoint.py") {
    return run_named("convert", rest);
  }
  if (rest.empty()) {
    std::fputs(program_help().c_str(), stderr);
    return kExitUsage;
  }
  const std::string first = rest.front();
  rest.erase(rest.begin());
  if (first == "help" || first == "--help" || first == "-h") {
    return run_help(rest);
  }
  return run_named(first == "--version" ? "version" : first, rest);
}

}  // namespace zonda::cli
