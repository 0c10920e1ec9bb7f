// "%s" % x and "{}".format(x).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/natives.h"
#include "text/jinja/template_fault.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

constexpr int kMaxWidth = 10000;

// [[fill]align][sign][#][0][width][,][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = '\0';
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  char grouping = '\0';
  int width = 0;
  int precision = -1;
  char type = '\0';
};

int read_number(std::string_view text, size_t& pos) {
  int value = 0;
  while (pos < text.size() && text[pos] >= '0' && text[pos] <= '9') {
    value = value * 10 + (text[pos++] - '0');
    if (value > kMaxWidth) {
      fail("a format width beyond {} is refused", kMaxWidth);
    }
  }
  return value;
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t pos = 0;
  const auto is_align = [&](size_t at) {
    return at < text.size() && std::string_view("<>=^").find(text[at]) != std::string_view::npos;
  };
  const size_t first = text.empty() ? 0 : utf8_length(static_cast<unsigned char>(text[0]));
  if (!text.empty() && is_align(first)) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    pos = first + 1;
  } else if (is_align(0)) {
    spec.align = text[0];
    pos = 1;
  }
  const auto take = [&](std::string_view accepted) {
    return pos < text.size() && accepted.find(text[pos]) != std::string_view::npos ? text[pos++]
                                                                                   : '\0';
  };
  if (const char sign = take("+- ")) {
    spec.sign = sign;
  }
  spec.alternate = take("#") != '\0';
  spec.zero = take("0") != '\0';
  spec.width = read_number(text, pos);
  spec.grouping = take(",_");
  if (take(".") != '\0') {
    spec.precision = read_number(text, pos);
  }
  spec.type = take("bcdeEfFgGnosxX%");
  if (pos != text.size()) {
    fail("the format \"{}\" is not understood", text);
  }
  return spec;
}

// Digits with a separator between groups of three before the point.
std::string group_digits(const std::string& digits, char separator) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) {
      out += separator;
    }
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string format_float(double value, const Spec& spec, char type) {
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  switch (type) {
    case 'e':
      return fmt::format("{:.{}e}", value, precision);
    case 'E':
      return fmt::format("{:.{}E}", value, precision);
    case 'g':
    case 'n':
      return fmt::format("{:.{}g}", value, precision);
    case 'G':
      return fmt::format("{:.{}G}", value, precision);
    case '%':
      return fmt::format("{:.{}f}%", value * 100, precision);
    default:
      return fmt::format("{:.{}f}", value, precision);
  }
}

std::string format_magnitude(const Value& value, const Spec& spec) {
  const auto integer = value.as_integer();
  const char type = spec.type;
  if (integer.has_value() &&
      (type == '\0' || std::string_view("bcdoxXn").find(type) != std::string_view::npos)) {
    const uint64_t magnitude = *integer < 0 ? uint64_t{0} - static_cast<uint64_t>(*integer)
                                            : static_cast<uint64_t>(*integer);
    switch (type) {
      case 'b':
        return (spec.alternate ? "0b" : "") + fmt::format("{:b}", magnitude);
      case 'o':
        return (spec.alternate ? "0o" : "") + fmt::format("{:o}", magnitude);
      case 'x':
        return (spec.alternate ? "0x" : "") + fmt::format("{:x}", magnitude);
      case 'X':
        return (spec.alternate ? "0X" : "") + fmt::format("{:X}", magnitude);
      default:
        return std::to_string(magnitude);
    }
  }
  const double magnitude = std::abs(*value.as_number());
  if (type == '\0') {
    return spec.precision < 0 ? number_to_string(magnitude) : format_float(magnitude, spec, 'g');
  }
  return format_float(magnitude, spec, type);
}

MarkedText pad(MarkedText text, const Spec& spec, char default_align) {
  const auto length =
      static_cast<int>(std::min<size_t>(count_code_points(text.bytes()), INT32_MAX));
  const int missing = std::max(spec.width - length, 0);
  const char align = spec.align == '\0' ? default_align : spec.align;
  const int left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  MarkedText out;
  for (int i = 0; i < left; ++i) {
    out.append(spec.fill, false);
  }
  out.append(text);
  for (int i = left; i < missing; ++i) {
    out.append(spec.fill, false);
  }
  return out;
}

MarkedText format_number(const Value& value, Spec spec) {
  const bool negative = std::signbit(*value.as_number());
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  std::string magnitude = format_magnitude(value, spec);
  if (spec.grouping != '\0') {
    magnitude = group_digits(magnitude, spec.grouping);
  }
  if (spec.align == '=' || (spec.zero && spec.align == '\0')) {
    spec.fill = spec.zero ? "0" : spec.fill;
    spec.width -= static_cast<int>(sign.size());
    return {sign + pad({magnitude, false}, spec, '>').bytes(), false};
  }
  return pad({sign + magnitude, false}, spec, '>');
}

MarkedText truncate(const MarkedText& text, int precision) {
  size_t end = 0;
  for (int i = 0; i < precision && end < text.size(); ++i) {
    end += utf8_length(static_cast<unsigned char>(text.bytes()[end]));
  }
  return text.substr(0, end);
}

}  // namespace

MarkedText format_spec(const Value& value, std::string_view text) {
  if (text.empty()) {
    return to_text(value);
  }
  const Spec spec = parse_spec(text);
  const bool boolean = value.get_if<bool>() != nullptr && spec.type == '\0';
  if (value.is_number() && !boolean && spec.type != 's') {
    return format_number(value, spec);
  }
  if (value.is_number() && spec.type == 's') {
    fail("the format \"{}\" does not fit a number", text);
  }
  if (spec.type != '\0' && spec.type != 's') {
    fail("the format \"{}\" does not fit {}", text, type_name(value));
  }
  const MarkedText whole = to_text(value);
  return pad(spec.precision < 0 ? whole : truncate(whole, spec.precision), spec, '<');
}

Value percent_format(const MarkedText& format, const Value& arguments) {
  const std::string& bytes = format.bytes();
  const List* list = arguments.as_list();
  const std::vector<Value> values =
      list != nullptr && list->is_tuple() ? list->items : std::vector<Value>{arguments};
  size_t used = 0;
  MarkedText out;
  out.markup = format.markup;
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t percent = std::min(bytes.find('%', pos), bytes.size());
    out.append(format.substr(pos, percent));
    pos = percent + 1;
    if (percent >= bytes.size()) {
      break;
    }
    if (pos < bytes.size() && bytes[pos] == '%') {
      out.append("%", format.from_template(pos++));
      continue;
    }
    const Value* value = nullptr;
    if (pos < bytes.size() && bytes[pos] == '(') {
      const size_t close = bytes.find(')', pos);
      const Dict* dict = arguments.as_dict();
      value = dict && close != std::string::npos
                  ? dict->find(std::string_view(bytes).substr(pos + 1, close - pos - 1))
                  : nullptr;
      if (value == nullptr) {
        fail("a format names a key that its dict does not have");
      }
      pos = close + 1;
    }
    const size_t flags = pos;
    pos = std::min(bytes.find_first_not_of("-+ #0123456789.", pos), bytes.size());
    if (pos >= bytes.size()) {
      fail("a format ends after \"%\"");
    }
    if (value == nullptr) {
      if (used >= values.size()) {
        fail("a format needs more than {} values", values.size());
      }
      value = &values[used++];
    }
    std::string spec = bytes.substr(flags, pos - flags);
    const char type = bytes[pos++];
    const bool left = spec.find('-') != std::string::npos;
    std::erase(spec, '-');
    if (type == 's' || type == 'r') {
      out.append(format_spec(Value::text(type == 's' ? to_text(*value) : to_repr(*value)),
                             (left                             ? "<"
                              : spec.empty() || spec[0] == '.' ? ""
                                                               : ">") +
                                 spec));
      continue;
    }
    if (!value->is_number() ||
        std::string_view("dioxXeEfFgG").find(type) == std::string_view::npos) {
      fail("the format \"%{}\" does not fit {}", type, type_name(*value));
    }
    const bool integral = type == 'd' || type == 'i';
    const Value number = integral && !value->is_integer()
                             ? Value(static_cast<int64_t>(std::trunc(*value->as_number())))
                             : *value;
    out.append(format_spec(number, (left ? "<" : "") + spec + (integral ? 'd' : type)));
  }
  if (used < values.size() && arguments.as_dict() == nullptr) {
    fail("a format leaves {} of {} values unused", values.size() - used, values.size());
  }
  return Value::text(std::move(out));
}

Value brace_format(Interpreter& interpreter, const MarkedText& format, const CallArgs& args) {
  const std::string& bytes = format.bytes();
  size_t automatic = 0;
  MarkedText out;
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t brace = std::min(bytes.find_first_of("{}", pos), bytes.size());
    out.append(format.substr(pos, brace));
    pos = brace + 1;
    if (brace >= bytes.size()) {
      break;
    }
    if (pos < bytes.size() && bytes[pos] == bytes[brace]) {
      out.append(format.substr(brace, pos));
      ++pos;
      continue;
    }
    const size_t close = bytes.find('}', pos);
    if (bytes[brace] == '}' || close == std::string::npos) {
      fail("a format has a single \"{}\"", bytes[brace]);
    }
    std::string field = bytes.substr(pos, close - pos);
    pos = close + 1;
    const size_t colon = std::min(field.find(':'), field.size());
    const std::string spec = colon < field.size() ? field.substr(colon + 1) : "";
    field.resize(colon);
    char conversion = '\0';
    if (field.size() >= 2 && field[field.size() - 2] == '!') {
      conversion = field.back();
      field.resize(field.size() - 2);
    }
    const size_t path = std::min(field.find_first_of(".["), field.size());
    const std::string name = field.substr(0, path);
    Value value;
    const bool number =
        !name.empty() && name.size() < 6 &&
        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (name.empty() || number) {
      const size_t index = number ? std::stoul(name) : automatic++;
      if (index >= args.positional.size()) {
        fail("format() has no argument {}", index);
      }
      value = args.positional[index];
    } else {
      const auto known = std::find_if(args.named.begin(), args.named.end(),
                                      [&](const auto& entry) { return entry.first == name; });
      if (known == args.named.end()) {
        fail("format() has no argument \"{}\"", name);
      }
      value = known->second;
    }
    std::string rest = field.substr(path);
    std::replace(rest.begin(), rest.end(), '[', '.');
    std::erase(rest, ']');
    if (!rest.empty()) {
      value = follow_attribute(interpreter, value, Value::text(rest.substr(1)));
    }
    if (conversion != '\0') {
      value = Value::text(conversion == 'r' ? to_repr(value) : to_text(value));
    }
    out.append(format_spec(value, spec));
    check_size(out.size());
  }
  return Value::text(std::move(out));
}

}  // namespace zonda::text::jinja
