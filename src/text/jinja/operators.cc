// Operators of expressions, with Python's meaning.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "text/jinja/interpreter.h"
#include "text/jinja/natives.h"
#include "text/jinja/python_text.h"
#include "text/jinja/template_fault.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

[[noreturn]] void fail_types(std::string_view op, const Value& left, const Value& right) {
  fail("\"{}\" does not work for {} and {}", op, type_name(left), type_name(right));
}

[[noreturn]] void fail_overflow() { fail("the result of integer arithmetic does not fit 64 bits"); }

using Arithmetic = bool (*)(int64_t, int64_t, int64_t*);  // true on overflow
bool add(int64_t a, int64_t b, int64_t* out) { return __builtin_add_overflow(a, b, out); }
bool subtract(int64_t a, int64_t b, int64_t* out) { return __builtin_sub_overflow(a, b, out); }
bool multiply(int64_t a, int64_t b, int64_t* out) { return __builtin_mul_overflow(a, b, out); }

int64_t checked(Arithmetic operation, int64_t a, int64_t b) {
  int64_t result = 0;
  if (operation(a, b, &result)) {
    fail_overflow();
  }
  return result;
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) {
    return checked(subtract, 0, a);
  }
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t floor_modulo(int64_t a, int64_t b) {
  if (b == -1) {
    return 0;
  }
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) {
      result = checked(multiply, result, base);
    }
    if (exponent > 1) {
      base = checked(multiply, base, base);
    }
  }
  return result;
}

Value integer_arithmetic(std::string_view op, int64_t a, int64_t b) {
  if (op == "+") {
    return Value(checked(add, a, b));
  }
  if (op == "-") {
    return Value(checked(subtract, a, b));
  }
  if (op == "*") {
    return Value(checked(multiply, a, b));
  }
  if (op == "**" && b >= 0) {
    return Value(integer_power(a, b));
  }
  if (op == "**") {
    return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  if (b == 0) {
    fail("division by zero");
  }
  if (op == "/") {
    return Value(static_cast<double>(a) / static_cast<double>(b));
  }
  return Value(op == "//" ? floor_divide(a, b) : floor_modulo(a, b));
}

Value float_arithmetic(std::string_view op, double a, double b) {
  if (op == "+") {
    return Value(a + b);
  }
  if (op == "-") {
    return Value(a - b);
  }
  if (op == "*") {
    return Value(a * b);
  }
  if (op == "**") {
    return Value(std::pow(a, b));
  }
  if (b == 0) {
    fail("division by zero");
  }
  if (op == "/") {
    return Value(a / b);
  }
  if (op == "//") {
    return Value(std::floor(a / b));
  }
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) {
    rest += b;
  }
  return Value(rest);
}

Value add_texts(const MarkedText& left, const MarkedText& right) {
  const bool markup = left.markup || right.markup;
  MarkedText out = markup && !left.markup ? escape_html(left) : left;
  out.append(markup && !right.markup ? escape_html(right) : right);
  out.markup = markup;
  return Value::text(std::move(out));
}

Value repeat(const Value& value, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (const MarkedText* text = value.as_text()) {
    check_size(text->empty() || times <= SIZE_MAX / text->size() ? text->size() * times : SIZE_MAX);
    MarkedText out;
    out.markup = text->markup;
    for (size_t i = 0; i < times && !text->empty(); ++i) {
      out.append(*text);
    }
    return Value::text(std::move(out));
  }
  const List& list = *value.as_list();
  const size_t unit = std::max<size_t>(list.items.size(), 1) * sizeof(Value);
  check_size(times <= SIZE_MAX / unit ? unit * times : SIZE_MAX);
  std::vector<Value> items;
  for (size_t i = 0; i < times; ++i) {
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return Value::list(std::move(items), list.kind);
}

struct SliceRange {
  int64_t begin, end, step;
};

// Python's rules for bounds that are absent, negative or too large.
SliceRange slice_range(int64_t count, const Value& begin, const Value& end, const Value& step) {
  const auto bound = [&](const Value& value, int64_t absent) {
    if (value.is_none()) {
      return absent;
    }
    const auto given = value.as_integer();
    if (!given.has_value()) {
      fail("the bounds of a slice are integers, not {}", type_name(value));
    }
    return *given;
  };
  SliceRange range{0, 0, bound(step, 1)};
  if (range.step == 0) {
    fail("the step of a slice cannot be zero");
  }
  const int64_t low = range.step > 0 ? 0 : -1;
  const int64_t high = range.step > 0 ? count : count - 1;
  const auto clamp = [&](int64_t index) {
    return std::clamp(index < 0 ? index + count : index, low, high);
  };
  range.begin = begin.is_none() ? (range.step > 0 ? low : high) : clamp(bound(begin, 0));
  range.end = end.is_none() ? (range.step > 0 ? high : low) : clamp(bound(end, 0));
  return range;
}

template <typename Visit>
void for_each_index(const SliceRange& range, int64_t count, Visit visit) {
  // A step longer than the list ends the walk after the first item.
  const int64_t step = std::clamp(range.step, -count - 1, count + 1);
  for (int64_t i = range.begin; step > 0 ? i < range.end : i > range.end; i += step) {
    visit(static_cast<size_t>(i));
  }
}

Value slice_text(const MarkedText& text, const Value& begin, const Value& end, const Value& step) {
  std::vector<size_t> starts;  // of each character, and the end
  for (size_t pos = 0; pos < text.size();) {
    starts.push_back(pos);
    pos += utf8_length(static_cast<unsigned char>(text.bytes()[pos]));
  }
  starts.push_back(text.size());
  const auto count = static_cast<int64_t>(starts.size() - 1);
  const SliceRange range = slice_range(count, begin, end, step);
  if (range.step == 1) {
    return Value::text(range.begin < range.end
                           ? text.substr(starts[static_cast<size_t>(range.begin)],
                                         starts[static_cast<size_t>(range.end)])
                           : MarkedText());
  }
  MarkedText out;
  for_each_index(range, count,
                 [&](size_t i) { out.append(text.substr(starts[i], starts[i + 1])); });
  return Value::text(std::move(out));
}

}  // namespace

Value binary(std::string_view op, const Value& left, const Value& right) {
  if (left.is_undefined() || right.is_undefined()) {
    fail_undefined(left.is_undefined() ? left : right);
  }
  if (op == "%" && left.is_text()) {
    return percent_format(*left.as_text(), right);
  }
  if (left.is_integer() && right.is_integer()) {
    return integer_arithmetic(op, *left.as_integer(), *right.as_integer());
  }
  if (left.is_number() && right.is_number()) {
    return float_arithmetic(op, *left.as_number(), *right.as_number());
  }
  if (op == "+" && left.is_text() && right.is_text()) {
    return add_texts(*left.as_text(), *right.as_text());
  }
  const List* first = left.as_list();
  const List* second = right.as_list();
  if (op == "+" && first && second && first->has_items() && first->kind == second->kind) {
    std::vector<Value> items = first->items;
    items.insert(items.end(), second->items.begin(), second->items.end());
    return Value::list(std::move(items), first->kind);
  }
  if (op == "*" && (left.is_text() || (first && first->has_items())) && right.is_integer()) {
    return repeat(left, *right.as_integer());
  }
  if (op == "*" && left.is_integer() && (right.is_text() || (second && second->has_items()))) {
    return repeat(right, *left.as_integer());
  }
  fail_types(op, left, right);
}

Value negate(const Value& value) {
  if (value.is_undefined()) {
    fail_undefined(value);
  }
  if (const auto integer = value.as_integer()) {
    return integer_arithmetic("-", 0, *integer);
  }
  if (const double* number = value.get_if<double>()) {
    return Value(-*number);
  }
  fail("\"-\" does not work for {}", type_name(value));
}

Value slice(const Value& value, const Value& begin, const Value& end, const Value& step) {
  if (const MarkedText* text = value.as_text()) {
    return slice_text(*text, begin, end, step);
  }
  const List* list = value.as_list();
  if (list == nullptr || !list->has_items()) {
    if (value.is_undefined()) {
      fail_undefined(value);
    }
    return Value::undefined(fmt::format("a value of type {} cannot be sliced", type_name(value)));
  }
  const auto count = static_cast<int64_t>(list->items.size());
  std::vector<Value> items;
  for_each_index(slice_range(count, begin, end, step), count,
                 [&](size_t i) { items.push_back(list->items[i]); });
  return Value::list(std::move(items), list->kind);
}

bool contains(const Value& container, const Value& item) {
  if (const MarkedText* text = container.as_text()) {
    if (!item.is_text()) {
      fail("\"in\" a string needs a string, not {}", type_name(item));
    }
    return text->bytes().find(item.as_text()->bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.as_dict()) {
    return !item.is_undefined() && dict->find(item) != nullptr;
  }
  if (const auto* space = container.get_if<Value::NamespacePtr>()) {
    const MarkedText* name = item.as_text();
    const auto& attributes = (*space)->attributes;
    return name && std::any_of(attributes.begin(), attributes.end(),
                               [&](const auto& entry) { return entry.first == name->bytes(); });
  }
  const std::vector<Value> items = iterate(container);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& other) { return equals(other, item); });
}

}  // namespace zonda::text::jinja
