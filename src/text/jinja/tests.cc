// The tests behind "is".
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/natives.h"
#include "text/jinja/python_text.h"
#include "text/jinja/template_fault.h"

namespace zonda::text::jinja {
namespace {

using I = Interpreter;

Value defined(I&, const Value& self, const Bound&) { return Value(!self.is_undefined()); }
Value undefined(I&, const Value& self, const Bound&) { return Value(self.is_undefined()); }
Value none(I&, const Value& self, const Bound&) { return Value(self.is_none()); }
Value boolean(I&, const Value& self, const Bound&) { return Value(self.get_if<bool>() != nullptr); }
Value is_true(I&, const Value& self, const Bound&) {
  return Value(self.get_if<bool>() && *self.get_if<bool>());
}
Value is_false(I&, const Value& self, const Bound&) {
  return Value(self.get_if<bool>() && !*self.get_if<bool>());
}
Value integer(I&, const Value& self, const Bound&) {
  return Value(self.get_if<int64_t>() != nullptr);
}
Value floating(I&, const Value& self, const Bound&) {
  return Value(self.get_if<double>() != nullptr);
}
Value number(I&, const Value& self, const Bound&) { return Value(self.is_number()); }
Value string(I&, const Value& self, const Bound&) { return Value(self.is_text()); }
Value mapping(I&, const Value& self, const Bound&) { return Value(self.as_dict() != nullptr); }
Value iterable(I&, const Value& self, const Bound&) { return Value(is_iterable(self)); }
Value sequence(I&, const Value& self, const Bound&) {
  const List* list = self.as_list();
  return Value(self.is_text() || (list && list->has_items()) || self.as_dict() ||
               self.is_undefined());
}
Value callable(I&, const Value& self, const Bound&) {
  const auto* loop = self.get_if<Value::LoopPtr>();
  return Value(self.get_if<Value::CallablePtr>() != nullptr || loop != nullptr);
}
Value escaped(I&, const Value& self, const Bound&) {
  return Value(self.is_text() && self.as_text()->markup);
}
Value filter_exists(I&, const Value& self, const Bound&) {
  return Value(self.is_text() && find_filter(self.as_text()->bytes()) != nullptr);
}
Value test_exists(I&, const Value& self, const Bound&) {
  return Value(self.is_text() && find_test(self.as_text()->bytes()) != nullptr);
}

int64_t need_integer(const Value& value) {
  const auto integer = value.as_integer();
  if (!integer.has_value()) {
    fail("the test needs an integer, not {}", type_name(value));
  }
  return *integer;
}
Value odd(I&, const Value& self, const Bound&) { return Value(need_integer(self) % 2 != 0); }
Value even(I&, const Value& self, const Bound&) { return Value(need_integer(self) % 2 == 0); }
Value divisibleby(I&, const Value& self, const Bound& args) {
  const int64_t divisor = need_integer(args.required(0));
  if (divisor == 0) {
    fail("division by zero");
  }
  return Value(divisor == -1 || need_integer(self) % divisor == 0);
}

bool is_of_case(const Value& self, MarkedText (*change)(const MarkedText&)) {
  const MarkedText text = to_text(self);
  return change(text).bytes() == text.bytes() && to_upper(text).bytes() != to_lower(text).bytes();
}
Value lower(I&, const Value& self, const Bound&) { return Value(is_of_case(self, to_lower)); }
Value upper(I&, const Value& self, const Bound&) { return Value(is_of_case(self, to_upper)); }

Value equal(I&, const Value& self, const Bound& args) {
  return Value(equals(self, args.required(0)));
}
Value not_equal(I&, const Value& self, const Bound& args) {
  return Value(!equals(self, args.required(0)));
}
Value less(I&, const Value& self, const Bound& args) {
  return Value(compare(self, args.required(0)) < 0);
}
Value less_equal(I&, const Value& self, const Bound& args) {
  return Value(compare(self, args.required(0)) <= 0);
}
Value greater(I&, const Value& self, const Bound& args) {
  return Value(compare(self, args.required(0)) > 0);
}
Value greater_equal(I&, const Value& self, const Bound& args) {
  return Value(compare(self, args.required(0)) >= 0);
}
Value in(I&, const Value& self, const Bound& args) {
  return Value(contains(args.required(0), self));
}
// Identity: for values that cannot change, equality of type and value.
Value same_as(I&, const Value& self, const Bound& args) {
  return Value(type_name(self) == type_name(args.required(0)) && equals(self, args.required(0)));
}

constexpr Native kTests[] = {
    {"!=", "other", not_equal},
    {"<", "other", less},
    {"<=", "other", less_equal},
    {"==", "other", equal},
    {">", "other", greater},
    {">=", "other", greater_equal},
    {"boolean", "", boolean},
    {"callable", "", callable},
    {"defined", "", defined},
    {"divisibleby", "num", divisibleby},
    {"eq", "other", equal},
    {"equalto", "other", equal},
    {"escaped", "", escaped},
    {"even", "", even},
    {"false", "", is_false},
    {"filter", "", filter_exists},
    {"float", "", floating},
    {"ge", "other", greater_equal},
    {"greaterthan", "other", greater},
    {"gt", "other", greater},
    {"in", "seq", in},
    {"integer", "", integer},
    {"iterable", "", iterable},
    {"le", "other", less_equal},
    {"lessthan", "other", less},
    {"lower", "", lower},
    {"lt", "other", less},
    {"mapping", "", mapping},
    {"ne", "other", not_equal},
    {"none", "", none},
    {"number", "", number},
    {"odd", "", odd},
    {"sameas", "other", same_as},
    {"sequence", "", sequence},
    {"string", "", string},
    {"test", "", test_exists},
    {"true", "", is_true},
    {"undefined", "", undefined},
    {"upper", "", upper},
};

}  // namespace

const Native* find_test(std::string_view name) {
  const auto found = std::find_if(std::begin(kTests), std::end(kTests),
                                  [&](const Native& native) { return native.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace zonda::text::jinja
