// SPDX-License-Identifier: Apache-2.0
#include "cli/number.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace zonda::cli {
namespace {

// What a trailing letter multiplies by; 0 for any other character.
int64_t letter_factor(char letter) {
  switch (letter) {
    case 'k':
      return 1000;
    case 'm':
      return 1000 * 1000;
    case 'g':
      return 1000 * 1000 * 1000;
    case 't':
      return int64_t{1000} * 1000 * 1000 * 1000;
    case 'K':
      return int64_t{1} << 10;
    case 'M':
      return int64_t{1} << 20;
    case 'G':
      return int64_t{1} << 30;
    case 'T':
      return int64_t{1} << 40;
    default:
      return 0;
  }
}

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return value;
}

// "1.5" times 1000 is 1500; nullopt when the product is not whole.
std::optional<int64_t> scale_fraction(std::string_view text, int64_t factor) {
  const std::optional<double> value = parse_number(text);
  if (!value) {
    return std::nullopt;
  }
  const double product = *value * static_cast<double>(factor);
  constexpr double kExact = 9007199254740992.0;  // beyond, a double skips integers
  if (std::abs(product) > kExact || std::abs(product - std::round(product)) > 1e-6) {
    return std::nullopt;
  }
  return static_cast<int64_t>(std::llround(product));
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  const int64_t factor = text.empty() ? 0 : letter_factor(text.back());
  if (factor == 0) {
    return parse_whole<int64_t>(text);
  }
  const bool decimal = text.back() >= 'a';
  text.remove_suffix(1);
  if (decimal && text.find('.') != std::string_view::npos) {
    return scale_fraction(text, factor);
  }
  const std::optional<int64_t> value = parse_whole<int64_t>(text);
  int64_t product = 0;
  if (!value || __builtin_mul_overflow(*value, factor, &product)) {
    return std::nullopt;
  }
  return product;
}

std::optional<double> parse_number(std::string_view text) {
  const std::optional<double> value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<std::vector<int32_t>> parse_ids(std::string_view text) {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    while (part.starts_with(' ')) {
      part.remove_prefix(1);
    }
    while (part.ends_with(' ')) {
      part.remove_suffix(1);
    }
    const std::optional<int32_t> id = parse_whole<int32_t>(part);
    if (!id || (text.empty() && comma != std::string_view::npos)) {
      return std::nullopt;
    }
    ids.push_back(*id);
  }
  return ids;
}

std::string bytes_text(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (value >= 1e9) {
    return fmt::format("{:.2f} GB", value / 1e9);
  }
  if (value >= 1e6) {
    return fmt::format("{:.1f} MB", value / 1e6);
  }
  return fmt::format("{} bytes", bytes);
}

}  // namespace zonda::cli
