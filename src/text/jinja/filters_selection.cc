// map, select, reject and their kin; the lookup of filters.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/natives.h"
#include "text/jinja/template_fault.h"

namespace zonda::text::jinja {
namespace {

// The arguments from the one at `first` on.
CallArgs rest_of(const CallArgs& args, size_t first) {
  CallArgs rest;
  for (size_t i = first; i < args.positional.size(); ++i) {
    rest.positional.push_back(args.positional[i]);
  }
  rest.named = args.named;
  return rest;
}

// As in the reference, whatever is false counts as an empty list, None too.
std::vector<Value> items_if_true(const Value& value) {
  return truthy(value) ? iterate(value) : std::vector<Value>();
}

Value map(Interpreter& interpreter, const Value& self, const Bound& bound) {
  const CallArgs& args = bound.raw();
  std::vector<Value> mapped = items_if_true(self);
  if (args.positional.empty()) {
    const Value* attribute = nullptr;
    const Value* fallback = nullptr;
    for (const auto& [name, value] : args.named) {
      (name == "attribute" ? attribute : fallback) = &value;
      if (name != "attribute" && name != "default") {
        fail("map() has no parameter \"{}\"", name);
      }
    }
    if (attribute == nullptr) {
      fail("map() needs a filter or an attribute");
    }
    for (Value& item : mapped) {
      item = follow_attribute(interpreter, item, *attribute);
      if (item.is_undefined() && fallback != nullptr) {
        item = *fallback;
      }
    }
    return Value::list(std::move(mapped), List::Kind::kLazy);
  }
  const std::string name = expect_text(args.positional[0], "map").bytes();
  const CallArgs rest = rest_of(args, 1);
  for (Value& item : mapped) {
    item = interpreter.filter(name, item, rest);
  }
  return Value::list(std::move(mapped), List::Kind::kLazy);
}

// Keeps the items for which a test (or truth, if none is named) gives `wanted`.
Value keep(Interpreter& interpreter, const Value& self, const Bound& bound, bool by_attribute,
           bool wanted) {
  const CallArgs& args = bound.raw();
  const size_t first = by_attribute ? 1 : 0;
  if (args.positional.size() < first) {
    fail("{}() needs an attribute", bound.function());
  }
  const bool has_test = args.positional.size() > first;
  const std::string test =
      has_test ? expect_text(args.positional[first], bound.function()).bytes() : "";
  const CallArgs rest = rest_of(args, first + 1);
  std::vector<Value> kept;
  for (Value& item : items_if_true(self)) {
    const Value value =
        by_attribute ? follow_attribute(interpreter, item, args.positional[0]) : item;
    if ((has_test ? interpreter.test(test, value, rest) : truthy(value)) == wanted) {
      kept.push_back(std::move(item));
    }
  }
  return Value::list(std::move(kept), List::Kind::kLazy);
}

Value select(Interpreter& i, const Value& self, const Bound& args) {
  return keep(i, self, args, false, true);
}
Value reject(Interpreter& i, const Value& self, const Bound& args) {
  return keep(i, self, args, false, false);
}
Value selectattr(Interpreter& i, const Value& self, const Bound& args) {
  return keep(i, self, args, true, true);
}
Value rejectattr(Interpreter& i, const Value& self, const Bound& args) {
  return keep(i, self, args, true, false);
}

constexpr Native kFilters[] = {
    {"map", "*", map},       {"reject", "*", reject},         {"rejectattr", "*", rejectattr},
    {"select", "*", select}, {"selectattr", "*", selectattr},
};

}  // namespace

std::span<const Native> selection_filters() { return kFilters; }

const Native* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), selection_filters()}) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const Native& native) { return native.name == name; });
    if (found != table.end()) {
      return &*found;
    }
  }
  return nullptr;
}

}  // namespace zonda::text::jinja
