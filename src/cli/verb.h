// One verb of the program: its options and what it does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/option.h"

namespace zonda::cli {

// What the process returns.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,         // the work could not be done; one line says why
  kExitUsage = 2,          // the command line is wrong or asks for what is not supported
  kExitInterrupted = 130,  // SIGINT or SIGTERM; what was printed so far is valid
};

struct Verb {
  std::string_view name;
  std::string_view operands;  // of the usage line: "MODEL"
  std::string_view summary;
  size_t max_operands = 0;
  OptionTable (*options)() = nullptr;
  int (*run)(const Arguments& arguments) = nullptr;
};

std::span<const Verb> verbs();
// Null if there is none of that name.
const Verb* find_verb(std::string_view name);

// The rows that every verb has: --log_level, --help.
std::span<const Option> common_options();
OptionTable convert_options();
OptionTable build_options();
OptionTable run_options();
OptionTable tokenize_options();
OptionTable inspect_options();
OptionTable doctor_options();
OptionTable profile_options();
OptionTable version_options();

int run_convert(const Arguments& arguments);
int run_build(const Arguments& arguments);
int run_run(const Arguments& arguments);
int run_tokenize(const Arguments& arguments);
int run_inspect(const Arguments& arguments);
int run_doctor(const Arguments& arguments);
int run_profile(const Arguments& arguments);
int run_version(const Arguments& arguments);

// Prints the error as one line on stderr; the exit code for it.
int report_failure(const Error& error);

// The same for a command line that cannot be carried out: kExitUsage.
int report_usage(std::string_view message);

// The whole program. words[0] is the path it was called by: trtllm-build and convert_checkpoint
// mean the verbs build and convert.
int run_program(const std::vector<std::string>& words);

}  // namespace zonda::cli
