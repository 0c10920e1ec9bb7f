// str() and repr() of the template language's values.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "text/char_classes.h"
#include "text/jinja/template_fault.h"
#include "text/jinja/value.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

bool is_printable(char32_t code) {
  if (code < 0x7f) {
    return code >= 0x20;
  }
  const uint16_t classes = CharClasses::get().of(code);
  const bool known = (classes & (kLetter | kMark | kNumber | kPunctuation | kSymbol)) != 0;
  return known && (classes & kSpace) == 0;
}

std::string escape_code(char32_t code) {
  const auto value = static_cast<uint32_t>(code);
  return code == '\n'     ? "\\n"
         : code == '\r'   ? "\\r"
         : code == '\t'   ? "\\t"
         : code < 0x100   ? fmt::format("\\x{:02x}", value)
         : code < 0x10000 ? fmt::format("\\u{:04x}", value)
                          : fmt::format("\\U{:08x}", value);
}

// A string literal in Python's choice of quotes.
MarkedText repr_of_text(const MarkedText& text) {
  const std::string& bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string::npos;
  const char quote = has_single && bytes.find('"') == std::string::npos ? '"' : '\'';
  MarkedText out(std::string(1, quote), false);
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t begin = pos;
    const char32_t code = next_code_point(bytes, pos);
    if (code == static_cast<char32_t>(quote) || code == '\\') {
      out.append("\\", false);
      out.append(text.substr(begin, pos));
    } else if (is_printable(code)) {
      out.append(text.substr(begin, pos));
    } else {
      out.append(escape_code(code), false);
    }
  }
  out.append(std::string(1, quote), false);
  return out;
}

MarkedText repr_of_list(const List& list) {
  if (list.kind == List::Kind::kLazy) {
    return {"<generator>", false};
  }
  MarkedText out(list.kind == List::Kind::kView ? "dict_view(["
                 : list.is_tuple()              ? "("
                                                : "[",
                 false);
  for (size_t i = 0; i < list.items.size(); ++i) {
    out.append(i == 0 ? "" : ", ", false);
    out.append(to_repr(list.items[i]));
  }
  out.append(list.kind == List::Kind::kView              ? "])"
             : !list.is_tuple()                          ? "]"
             : list.is_tuple() && list.items.size() == 1 ? ",)"
                                                         : ")",
             false);
  return out;
}

MarkedText repr_of_dict(const Dict& dict) {
  MarkedText out("{", false);
  for (size_t i = 0; i < dict.size(); ++i) {
    out.append(i == 0 ? "" : ", ", false);
    out.append(to_repr(dict.entries()[i].first));
    out.append(": ", false);
    out.append(to_repr(dict.entries()[i].second));
  }
  out.append("}", false);
  return out;
}

}  // namespace

std::string number_to_string(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  char buffer[64];
  auto [end, error] =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string shortest(buffer, end);
  const int exponent = std::stoi(shortest.substr(shortest.find('e') + 1));
  if (exponent < -4 || exponent >= 16) {
    return shortest;
  }
  end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed).ptr;
  std::string fixed(buffer, end);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

MarkedText to_text(const Value& value) {
  if (const MarkedText* text = value.as_text()) {
    return *text;
  }
  return value.is_undefined() ? MarkedText() : to_repr(value);
}

MarkedText to_repr(const Value& value) {
  if (const MarkedText* text = value.as_text()) {
    return repr_of_text(*text);
  }
  if (const bool* boolean = value.get_if<bool>()) {
    return {*boolean ? "True" : "False", false};
  }
  if (const auto integer = value.as_integer()) {
    return {std::to_string(*integer), false};
  }
  if (const double* number = value.get_if<double>()) {
    return {number_to_string(*number), false};
  }
  if (const List* list = value.as_list()) {
    return repr_of_list(*list);
  }
  if (const Dict* dict = value.as_dict()) {
    return repr_of_dict(*dict);
  }
  if (const auto* space = value.get_if<Value::NamespacePtr>()) {
    Dict dict;  // a namespace may hold itself: what it holds is not printed
    for (const auto& [name, attribute] : (*space)->attributes) {
      dict.set(Value::text(name), Value::text(type_name(attribute)));
    }
    MarkedText out("<Namespace ", false);
    out.append(repr_of_dict(dict));
    out.append(">", false);
    return out;
  }
  return {value.is_none()        ? "None"
          : value.is_undefined() ? "Undefined"
                                 : "<" + type_name(value) + ">",
          false};
}

}  // namespace zonda::text::jinja
