// SPDX-License-Identifier: Apache-2.0
#include "cli/option.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "cli/number.h"

namespace zonda::cli {
namespace {

constexpr std::array<std::string_view, 4> kOnWords = {"enable", "true", "on", "yes"};
constexpr std::array<std::string_view, 4> kOffWords = {"disable", "false", "off", "no"};
constexpr std::array<std::string_view, 9> kPluginWords = {
    "auto", "none", "float16", "bfloat16", "float32", "int32", "fp8", "float8", "fp32"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

// Edits that turn one word into the other; a swap of neighbours counts as one.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

Error wrong_value(const Option& option, std::string_view value, std::string_view allowed) {
  return invalid_argument("[options] --{} is '{}', which is not {}.", option.name, value, allowed);
}

Result<std::string> canonical_switch(const Option& option, std::string_view value) {
  const std::string word = lower(value);
  if (contains(kOnWords, word) || word == "1") {
    return std::string("enable");
  }
  if (contains(kOffWords, word) || word == "0") {
    return std::string("disable");
  }
  if (option.type == OptionType::kPlugin && contains(kPluginWords, word)) {
    return word;
  }
  return wrong_value(option, value,
                     option.type == OptionType::kPlugin ? "enable, disable, auto, none or a dtype"
                                                        : "enable or disable");
}

Result<std::string> canonical_text(const Option& option, std::string_view value) {
  const std::vector<std::string_view> choices = split_words(option.choices);
  if (choices.empty()) {
    return std::string(value);
  }
  const std::string word = lower(value);
  if (std::find(choices.begin(), choices.end(), word) == choices.end()) {
    return wrong_value(option, value, fmt::format("one of: {}", option.choices));
  }
  return word;
}

Result<std::string> in_range(const Option& option, std::string value, double number) {
  if (number < option.least) {
    return wrong_value(option, value, fmt::format("at least {}", option.least));
  }
  if (number > option.most) {
    return wrong_value(option, value, fmt::format("at most {}", option.most));
  }
  return canonical_text(option, value);
}

Result<std::string> check_supported(const Option& option, std::string value) {
  if (option.effect != OptionEffect::kRefused) {
    return value;
  }
  const std::vector<std::string_view> supported = split_words(option.supported);
  if (std::find(supported.begin(), supported.end(), value) != supported.end()) {
    return value;
  }
  const bool bare = value == "enable" && option.type == OptionType::kSwitch;
  const std::string shown = bare ? "" : " " + value;
  const std::string honoured =
      supported.empty() || bare ? "" : fmt::format(" Supported: {}.", option.supported);
  return unsupported("[options] --{}{} is not supported: {}.{}", option.name, shown, option.reason,
                     honoured);
}

Result<std::string> typed_value(const Option& option, std::string_view value) {
  switch (option.type) {
    case OptionType::kSwitch:
    case OptionType::kPlugin:
      return canonical_switch(option, value);
    case OptionType::kText:
      return canonical_text(option, value);
    case OptionType::kInteger:
      if (const std::optional<int64_t> number = parse_integer(value)) {
        return in_range(option, std::to_string(*number), static_cast<double>(*number));
      }
      return wrong_value(option, value, "an integer (12, 4k, 2K)");
    case OptionType::kNumber:
      if (const std::optional<double> number = parse_number(value)) {
        return in_range(option, std::string(value), *number);
      }
      return wrong_value(option, value, "a number");
    case OptionType::kIds:
      if (parse_ids(value)) {
        return std::string(value);
      }
      return wrong_value(option, value, "a list of token ids (1,2,3)");
  }
  return internal_error("[options] --{} has no type.", option.name);
}

}  // namespace

std::vector<std::string_view> split_words(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const size_t space = list.find(' ');
    if (space != 0) {
      words.push_back(list.substr(0, space));
    }
    list = space == std::string_view::npos ? std::string_view{} : list.substr(space + 1);
  }
  return words;
}

std::string normal_name(std::string_view name) {
  std::string result = lower(name);
  std::replace(result.begin(), result.end(), '-', '_');
  return result;
}

const Option* find_option(const OptionTable& table, std::string_view name) {
  const std::string wanted = normal_name(name);
  for (const OptionGroup& group : table) {
    for (const Option& option : group.options) {
      const std::vector<std::string_view> aliases = split_words(option.aliases);
      if (option.name == wanted ||
          std::find(aliases.begin(), aliases.end(), wanted) != aliases.end()) {
        return &option;
      }
    }
  }
  return nullptr;
}

std::string nearest_name(const OptionTable& table, std::string_view name) {
  std::vector<std::string_view> names;
  for (const OptionGroup& group : table) {
    for (const Option& option : group.options) {
      names.push_back(option.name);
      for (const std::string_view alias : split_words(option.aliases)) {
        names.push_back(alias);
      }
    }
  }
  return std::string(nearest_word(names, normal_name(name)));
}

std::string_view nearest_word(std::span<const std::string_view> words, std::string_view word) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string_view candidate : words) {
    const size_t distance = edit_distance(candidate, word);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

Result<std::string> canonical_value(const Option& option, std::string_view value) {
  Result<std::string> typed = typed_value(option, value);
  return typed.ok() ? check_supported(option, std::move(typed).value()) : typed;
}

bool is_switch_word(const Option& option, std::string_view word) {
  const std::string lowered = lower(word);
  return contains(kOnWords, lowered) || contains(kOffWords, lowered) ||
         (option.type == OptionType::kPlugin && contains(kPluginWords, lowered));
}

}  // namespace zonda::cli
