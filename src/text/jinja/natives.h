// Filters, tests, methods and global functions that the language brings along.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/interpreter.h"
#include "text/jinja/value.h"

namespace zonda::text::jinja {

// The arguments of one call, matched to a parameter list. Accessors fault on a wrong type.
class Bound {
 public:
  // `parameters`: names with commas between them; "*": any arguments, read through raw().
  Bound(std::string_view function, std::string_view parameters, const CallArgs& args);

  const CallArgs& raw() const { return args_; }
  std::string_view function() const { return function_; }
  // Null if the argument was not given.
  const Value* get(size_t index) const;
  const Value& required(size_t index) const;
  MarkedText text(size_t index) const;
  std::optional<MarkedText> optional_text(size_t index) const;  // nullopt also for None
  MarkedText text(size_t index, std::string_view fallback) const;
  int64_t integer(size_t index, int64_t fallback) const;
  bool boolean(size_t index, bool fallback) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
  const CallArgs& args_;
};

using NativeFunction = Value (*)(Interpreter&, const Value& self, const Bound& args);

struct Native {
  std::string_view name;
  std::string_view parameters;
  NativeFunction function;
};

// Null if there is none of that name.
const Native* find_filter(std::string_view name);
const Native* find_test(std::string_view name);
const Native* find_text_method(std::string_view name);
const Native* find_list_method(std::string_view name);
const Native* find_dict_method(std::string_view name);
const Native* find_global(std::string_view name);

// The tables behind find_filter.
std::span<const Native> text_filters();
std::span<const Native> sequence_filters();
std::span<const Native> selection_filters();

// Helpers of several families.
Value percent_format(const MarkedText& format, const Value& arguments);
Value brace_format(Interpreter& interpreter, const MarkedText& format, const CallArgs& args);
MarkedText format_spec(const Value& value, std::string_view spec);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent{};  // one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// json.dumps(value); a fault for what JSON cannot express.
MarkedText to_json(const Value& value, const JsonStyle& style);

// value.a.b or value.0.b for the attribute "a.b" or "0.b", as the filters' `attribute` means it.
Value follow_attribute(Interpreter& interpreter, const Value& value, const Value& attribute);
// str(value) of an argument that must be a string already.
const MarkedText& expect_text(const Value& value, std::string_view function);
// A fault if a result of `bytes` bytes would be too large.
void check_size(size_t bytes);
// Joins strings, marks kept.
Value join(std::span<const Value> items, const MarkedText& separator);

}  // namespace zonda::text::jinja
