// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include "base/error.h"
#include "cli/number.h"

namespace zonda::cli {
namespace {

bool takes_bare(const Option& option) {
  return option.type == OptionType::kSwitch || option.type == OptionType::kPlugin;
}

// "-1" and "-0.5" are values, "-o" is not.
bool looks_like_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !parse_number(word);
}

// Without leading dashes and without "=value".
std::string name_of(const std::string& word) {
  const size_t begin = word.find_first_not_of('-');
  return begin == std::string::npos ? std::string{} : word.substr(begin, word.find('=') - begin);
}

// A text may begin with a dash as long as it names no option.
bool can_be_value(const OptionTable& table, const Option& option, const std::string& word) {
  return !looks_like_option(word) ||
         (option.type == OptionType::kText && find_option(table, name_of(word)) == nullptr);
}

Error unknown_option(const OptionTable& table, std::string_view shown, std::string_view name) {
  const std::string nearest = nearest_name(table, name);
  return nearest.empty()
             ? invalid_argument("[options] {} is not an option of this command.", shown)
             : invalid_argument(
                   "[options] {} is not an option of this command; the nearest is --{}.", shown,
                   nearest);
}

}  // namespace

Result<void> Arguments::set(const Option& option, std::string_view value) {
  Result<std::string> canonical = canonical_value(option, value);
  if (!canonical) {
    return canonical.error();
  }
  std::vector<std::string>& values = values_[std::string(option.name)];
  if (!values.empty() && !option.repeatable) {
    if (values.front() == *canonical) {
      return {};
    }
    return invalid_argument("[options] --{} is given as '{}' and as '{}'.", option.name,
                            values.front(), *canonical);
  }
  values.push_back(std::move(canonical).value());
  return {};
}

void Arguments::override_with(const Arguments& over) {
  for (const auto& [name, values] : over.values_) {
    values_[name] = values;
  }
}

const Option& Arguments::row(std::string_view name) const {
  const Option* option = find_option(table_, name);
  CHECK(option != nullptr && option->name == name);
  return *option;
}

const std::string* Arguments::last(std::string_view name) const {
  row(name);
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second.back();
}

bool Arguments::has(std::string_view name) const { return last(name) != nullptr; }

std::string Arguments::text(std::string_view name) const {
  const std::string* value = last(name);
  return value != nullptr ? *value : std::string(row(name).default_text);
}

std::vector<std::string> Arguments::texts(std::string_view name) const {
  row(name);
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

int64_t Arguments::integer(std::string_view name) const {
  const std::optional<int64_t> value = parse_integer(text(name));
  CHECK(value.has_value());
  return *value;
}

std::optional<int64_t> Arguments::find_integer(std::string_view name) const {
  const std::string* value = last(name);
  return value == nullptr ? std::nullopt : parse_integer(*value);
}

double Arguments::number(std::string_view name) const {
  const std::optional<double> value = parse_number(text(name));
  CHECK(value.has_value());
  return *value;
}

std::optional<double> Arguments::find_number(std::string_view name) const {
  const std::string* value = last(name);
  return value == nullptr ? std::nullopt : parse_number(*value);
}

bool Arguments::flag(std::string_view name) const { return text(name) == "enable"; }

std::vector<int32_t> Arguments::ids(std::string_view name) const {
  std::vector<int32_t> all;
  for (const std::string& value : texts(name)) {
    const std::vector<int32_t> part = parse_ids(value).value_or(std::vector<int32_t>{});
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<const Option*> Arguments::without_effect() const {
  std::vector<const Option*> rows;
  for (const auto& [name, values] : values_) {
    const Option& option = row(name);
    if (option.effect == OptionEffect::kNothing) {
      rows.push_back(&option);
    }
  }
  return rows;
}

Result<Arguments> parse_arguments(const OptionTable& table, const std::vector<std::string>& words) {
  Arguments arguments(table);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      for (++i; i < words.size(); ++i) {
        arguments.add_positional(words[i]);
      }
      break;
    }
    if (!looks_like_option(word)) {
      arguments.add_positional(word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string shown = word.substr(0, equals);
    const std::string name = name_of(word);
    const Option* option = find_option(table, name);
    if (option == nullptr) {
      return unknown_option(table, shown, name);
    }
    std::string value = "enable";
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (takes_bare(*option)) {
      if (i + 1 < words.size() && is_switch_word(*option, words[i + 1])) {
        value = words[++i];
      }
    } else if (i + 1 < words.size() && can_be_value(table, *option, words[i + 1])) {
      value = words[++i];
    } else {
      return invalid_argument("[options] {} needs a value: {}.", shown, option->value);
    }
    const Result<void> done = arguments.set(*option, value);
    if (!done) {
      return done.error();
    }
  }
  return arguments;
}

}  // namespace zonda::cli
