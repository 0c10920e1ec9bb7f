// Filters that make strings and numbers.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/char_classes.h"
#include "text/jinja/natives.h"
#include "text/jinja/python_text.h"
#include "text/jinja/template_fault.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

Value upper(Interpreter&, const Value& self, const Bound&) {
  return Value::text(to_upper(to_text(self)));
}
Value lower(Interpreter&, const Value& self, const Bound&) {
  return Value::text(to_lower(to_text(self)));
}
Value capitalize_filter(Interpreter&, const Value& self, const Bound&) {
  return Value::text(capitalize(to_text(self)));
}

// A word starts after white space, a hyphen or an opening bracket.
Value title(Interpreter&, const Value& self, const Bound&) {
  constexpr std::u32string_view kBefore = U"-({[<";
  const MarkedText text = to_text(self);
  MarkedText out;
  size_t begin = 0;
  const auto add_word = [&](size_t end) {
    out.append(capitalize(text.substr(begin, end)));
    begin = end;
  };
  for (size_t pos = 0; pos < text.size();) {
    const char32_t code = next_code_point(text.bytes(), pos);
    if (is_space(code) || kBefore.find(code) != std::u32string_view::npos) {
      add_word(pos);
    }
  }
  add_word(text.size());
  return Value::text(std::move(out));
}

Value trim(Interpreter&, const Value& self, const Bound& args) {
  const std::optional<MarkedText> chars = args.optional_text(0);
  const auto set =
      chars.has_value() ? std::optional<std::string_view>(chars->bytes()) : std::nullopt;
  return Value::text(strip(to_text(self), set, true, true));
}

Value string(Interpreter&, const Value& self, const Bound&) { return Value::text(to_text(self)); }

Value safe(Interpreter&, const Value& self, const Bound&) {
  MarkedText text = to_text(self);
  text.markup = true;
  return Value::text(std::move(text));
}

Value escape(Interpreter&, const Value& self, const Bound&) {
  MarkedText text = to_text(self);
  return Value::text(text.markup ? std::move(text) : escape_html(text));
}
Value force_escape(Interpreter&, const Value& self, const Bound&) {
  return Value::text(escape_html(to_text(self)));
}

Value replace_filter(Interpreter&, const Value& self, const Bound& args) {
  MarkedText text = to_text(self);
  text.markup = false;
  const Value* count = args.get(2);
  return Value::text(replace(text, to_text(args.required(0)).bytes(), to_text(args.required(1)),
                             count == nullptr || count->is_none() ? -1 : args.integer(2, -1)));
}

Value indent(Interpreter&, const Value& self, const Bound& args) {
  const Value* width = args.get(0);
  const bool first = args.boolean(1, false);
  const bool blank = args.boolean(2, false);
  MarkedText pad;
  if (width != nullptr && width->is_text()) {
    pad = *width->as_text();
  } else {
    const int64_t spaces = std::max<int64_t>(args.integer(0, 4), 0);
    check_size(static_cast<size_t>(spaces));
    pad = MarkedText(std::string(static_cast<size_t>(spaces), ' '), false);
  }
  MarkedText text = to_text(self);
  text.append("\n", false);  // as the reference does, so that the last line counts as one
  MarkedText out;
  size_t begin = 0;
  for (size_t line = 0; begin < text.size(); ++line) {
    const size_t end = text.bytes().find('\n', begin);
    const bool padded = line == 0 ? first : blank || end > begin;
    if (line > 0) {
      out.append("\n", false);
    }
    if (padded) {
      out.append(pad);
    }
    out.append(text.substr(begin, end));
    check_size(out.size());
    begin = end + 1;
  }
  return Value::text(std::move(out));
}

Value center(Interpreter&, const Value& self, const Bound& args) {
  const int64_t width = args.integer(0, 80);
  const auto length = static_cast<int64_t>(count_code_points(to_text(self).bytes()));
  check_size(width < 0 ? 0 : static_cast<size_t>(width));
  const int64_t missing = std::max<int64_t>(width - length, 0);
  const int64_t left = missing / 2 + (missing & width & 1);
  MarkedText out(std::string(static_cast<size_t>(left), ' '), false);
  out.append(to_text(self));
  out.append(std::string(static_cast<size_t>(missing - left), ' '), false);
  return Value::text(std::move(out));
}

Value truncate(Interpreter&, const Value& self, const Bound& args) {
  const MarkedText text = to_text(self);
  const int64_t length = args.integer(0, 255);
  const bool kill_words = args.boolean(1, false);
  const MarkedText end = args.text(2, "...");
  const int64_t leeway = args.integer(3, 5);
  const auto count = static_cast<int64_t>(count_code_points(text.bytes()));
  if (count <= length + leeway) {
    return Value::text(text);
  }
  const int64_t kept = length - static_cast<int64_t>(count_code_points(end.bytes()));
  if (kept < 0) {
    fail("truncate() to {} characters leaves no room for its ending", length);
  }
  const Value head = slice(Value::text(text), Value(None{}), Value(kept), Value(None{}));
  MarkedText out = *head.as_text();
  const size_t space = out.bytes().rfind(' ');
  if (!kill_words && space != std::string::npos) {
    out = out.substr(0, space);
  }
  out.append(end);
  return Value::text(std::move(out));
}

Value wordcount(Interpreter&, const Value& self, const Bound&) {
  const MarkedText text = to_text(self);
  int64_t words = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const bool word = CharClasses::get().is(next_code_point(text.bytes(), pos), kWord);
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value(words);
}

Value url_encode(Interpreter&, const Value& self, const Bound&) {
  constexpr std::string_view kKept =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/";
  MarkedText out;
  const MarkedText text = to_text(self);
  for (const char c : text.bytes()) {
    out.append(kKept.find(c) != std::string_view::npos
                   ? std::string(1, c)
                   : fmt::format("%{:02X}", static_cast<unsigned char>(c)),
               false);
  }
  return Value::text(std::move(out));
}

Value format(Interpreter&, const Value& self, const Bound& args) {
  const CallArgs& raw = args.raw();
  if (!raw.named.empty() && !raw.positional.empty()) {
    fail("format() takes positional or named arguments, not both");
  }
  if (raw.named.empty()) {
    return percent_format(to_text(self), Value::tuple(raw.positional));
  }
  Dict dict;
  for (const auto& [name, value] : raw.named) {
    dict.set(Value::text(name), value);
  }
  return percent_format(to_text(self), Value::dict(std::move(dict)));
}

std::optional<std::string> json_indent(const Value* value) {
  if (value == nullptr || value->is_none()) {
    return std::nullopt;
  }
  if (value->is_text()) {
    return value->as_text()->bytes();
  }
  const int64_t spaces = std::clamp<int64_t>(value->as_integer().value_or(0), 0, 64);
  return std::string(static_cast<size_t>(spaces), ' ');
}

Value tojson(Interpreter&, const Value& self, const Bound& args) {
  JsonStyle style;
  style.ensure_ascii = args.boolean(0, false);
  style.indent = json_indent(args.get(1));
  style.sort_keys = args.boolean(3, false);
  if (style.indent.has_value()) {
    style.item_separator = ",";
  }
  if (const Value* separators = args.get(2); separators != nullptr && !separators->is_none()) {
    const std::vector<Value> pair = iterate(*separators);
    if (pair.size() != 2) {
      fail("the separators of tojson() are two strings");
    }
    style.item_separator = expect_text(pair[0], "tojson").bytes();
    style.key_separator = expect_text(pair[1], "tojson").bytes();
  }
  return Value::text(to_json(self, style));
}

// Numbers.

std::optional<double> parse_float(std::string_view text) {
  double value = 0;
  text.remove_prefix(text.starts_with('+') ? 1 : 0);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() ? std::optional(value)
                                                                             : std::nullopt;
}

Value to_integer(Interpreter&, const Value& self, const Bound& args) {
  const Value fallback = args.get(0) == nullptr ? Value(int64_t{0}) : *args.get(0);
  const auto from_double = [&](double value) {
    return std::abs(value) < 9.2e18 ? Value(static_cast<int64_t>(value)) : fallback;
  };
  if (const auto integer = self.as_integer()) {
    return Value(*integer);
  }
  if (const auto number = self.as_number()) {
    return from_double(*number);
  }
  if (self.is_undefined()) {
    fail_undefined(self);
  }
  if (!self.is_text()) {
    return fallback;
  }
  const MarkedText trimmed = strip(*self.as_text(), std::nullopt, true, true);
  std::string_view text = trimmed.bytes();
  const auto base = static_cast<int>(args.integer(1, 10));
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative || text.starts_with('+') ? 1 : 0);
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  text.remove_prefix(text.starts_with(prefix) ? prefix.size() : 0);
  if (base < 2 || base > 36) {
    return fallback;
  }
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (result.ec == std::errc() && result.ptr == text.data() + text.size()) {
    return Value(negative ? -value : value);
  }
  const auto number = parse_float(trimmed.bytes());
  return number.has_value() ? from_double(*number) : fallback;
}

Value to_float(Interpreter&, const Value& self, const Bound& args) {
  const Value fallback = args.get(0) == nullptr ? Value(0.0) : *args.get(0);
  if (const auto number = self.as_number()) {
    return Value(*number);
  }
  if (self.is_undefined()) {
    fail_undefined(self);
  }
  const auto parsed = self.is_text()
                          ? parse_float(strip(*self.as_text(), std::nullopt, true, true).bytes())
                          : std::nullopt;
  return parsed.has_value() ? Value(*parsed) : fallback;
}

Value absolute(Interpreter&, const Value& self, const Bound&) {
  const auto number = self.as_number();
  if (!number.has_value()) {
    fail("abs() needs a number, not {}", type_name(self));
  }
  return *number < 0                      ? negate(self)
         : self.get_if<bool>() != nullptr ? Value(*self.as_integer())
                                          : self;
}

Value round(Interpreter&, const Value& self, const Bound& args) {
  const auto number = self.as_number();
  if (!number.has_value()) {
    fail("round() needs a number, not {}", type_name(self));
  }
  const int64_t precision = std::clamp<int64_t>(args.integer(0, 0), -300, 300);
  const std::string method = args.text(1, "common").bytes();
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil" || method == "floor") {
    const double scaled = *number * scale;
    return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  }
  if (method != "common") {
    fail("round() knows common, ceil and floor, not \"{}\"", method);
  }
  if (precision <= 0) {
    const double rounded = std::nearbyint(*number * scale) / scale;
    return self.is_integer() ? Value(static_cast<int64_t>(rounded)) : Value(rounded);
  }
  if (self.is_integer()) {
    return Value(*self.as_integer());
  }
  // Decimal rounding of the exact value, as Python's round().
  return Value(std::stod(fmt::format("{:.{}f}", *number, precision)));
}

constexpr Native kFilters[] = {
    {"abs", "", absolute},
    {"capitalize", "", capitalize_filter},
    {"center", "width", center},
    {"e", "", escape},
    {"escape", "", escape},
    {"float", "default", to_float},
    {"forceescape", "", force_escape},
    {"format", "*", format},
    {"indent", "width,first,blank", indent},
    {"int", "default,base", to_integer},
    {"lower", "", lower},
    {"replace", "old,new,count", replace_filter},
    {"round", "precision,method", round},
    {"safe", "", safe},
    {"string", "", string},
    {"title", "", title},
    {"tojson", "ensure_ascii,indent,separators,sort_keys", tojson},
    {"trim", "chars", trim},
    {"truncate", "length,killwords,end,leeway", truncate},
    {"upper", "", upper},
    {"urlencode", "", url_encode},
    {"wordcount", "", wordcount},
};

}  // namespace

std::span<const Native> text_filters() { return kFilters; }

}  // namespace zonda::text::jinja
