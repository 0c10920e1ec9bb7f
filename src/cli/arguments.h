// The parsed command line of one verb.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/option.h"
#include "zonda/error.h"

namespace zonda::cli {

// Accessors take a name of the table; an unknown name aborts. The ones without optional fall back
// to the row's default_text.
class Arguments {
 public:
  explicit Arguments(OptionTable table) : table_(std::move(table)) {}

  // Adds a value. kInvalidArgument for a wrong value or a second one of an option that is not
  // repeatable; kUnsupported for one that cannot be honoured.
  Result<void> set(const Option& option, std::string_view value);
  void add_positional(std::string value) { positionals_.push_back(std::move(value)); }
  // Values of `over` replace those here, option by option.
  void override_with(const Arguments& over);

  const OptionTable& table() const { return table_; }
  const std::vector<std::string>& positionals() const { return positionals_; }
  bool has(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  std::optional<int64_t> find_integer(std::string_view name) const;
  double number(std::string_view name) const;
  std::optional<double> find_number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::vector<int32_t> ids(std::string_view name) const;  // of all its values
  // Rows that were given and have no effect.
  std::vector<const Option*> without_effect() const;

 private:
  const Option& row(std::string_view name) const;
  const std::string* last(std::string_view name) const;

  OptionTable table_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;  // by row name, in order
  std::vector<std::string> positionals_;
};

// `words`: what follows the verb. "--name value", "--name=value", "-x value"; "--" ends the
// options. Errors name the option, the value and, for an unknown option, the nearest name.
Result<Arguments> parse_arguments(const OptionTable& table, const std::vector<std::string>& words);

}  // namespace zonda::cli
