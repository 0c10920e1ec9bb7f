// One row of an option table: the table feeds the parser, the help, the suggestions and the keys of
// request files. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zonda/error.h"

namespace zonda::cli {

enum class OptionType : uint8_t {
  kSwitch,   // bare, or with a word: enable, disable, true, false, on, off
  kPlugin,   // bare, or with a word: enable, disable, auto, none or a dtype
  kText,     // anything
  kInteger,  // 12, 4k, 2K, -1
  kNumber,   // 0.7
  kIds,      // token ids: 1,2,3
};

// What an accepted option does.
enum class OptionEffect : uint8_t {
  kActs,
  kNothing,  // the machine here has no such thing: one line says so
  kRefused,  // a value outside `supported` is an error: results would differ from what was asked
};

struct Option {
  std::string_view name = {};  // with underscores, without dashes
  OptionType type = OptionType::kSwitch;
  std::string_view value = {};  // of the help: "N", "FOLDER"
  std::string_view help = {};   // what it does, with its unit; empty: not shown in the short help
  std::string_view default_text = {};  // what holds if it is not given; read by the accessors
  std::string_view aliases = {};       // other names, separated by spaces; one letter is -x
  std::string_view choices =
      {};  // the words a kText or kInteger option may be, separated by spaces
  bool repeatable = false;
  bool per_request = false;                                 // may stand in a line of a request file
  double least = -std::numeric_limits<double>::infinity();  // kInteger, kNumber: the range
  double most = std::numeric_limits<double>::infinity();
  OptionEffect effect = OptionEffect::kActs;
  std::string_view supported = {};  // kRefused: the values that are honoured, separated by spaces
  std::string_view reason = {};     // kNothing, kRefused: why
};

// Rows under one heading of the help.
struct OptionGroup {
  std::string_view title;
  std::span<const Option> options;
};
using OptionTable = std::vector<OptionGroup>;

// The words of a list that separates by spaces.
std::vector<std::string_view> split_words(std::string_view list);
// Dashes become underscores and letters lower case.
std::string normal_name(std::string_view name);

// The row of that name or alias, '-' and '_' alike; null if there is none.
const Option* find_option(const OptionTable& table, std::string_view name);
// The name or alias closest to `name`; empty if none is close.
std::string nearest_name(const OptionTable& table, std::string_view name);
// The word of `words` closest to `word` within a third of its letters; empty if none is.
std::string_view nearest_word(std::span<const std::string_view> words, std::string_view word);

// Checks one value by the row's type and returns it in canonical form: switches as "enable" or
// "disable", integers as decimal digits. kInvalidArgument names option, value and what is allowed.
Result<std::string> canonical_value(const Option& option, std::string_view value);
// Whether `word` is one of those a kSwitch or kPlugin takes as its value.
bool is_switch_word(const Option& option, std::string_view word);

}  // namespace zonda::cli
