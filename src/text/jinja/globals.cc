// Functions that every template can call.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>

#include "text/jinja/natives.h"
#include "text/jinja/template_fault.h"

namespace zonda::text::jinja {
namespace {

constexpr int64_t kMaxRange = 100000;  // the reference's sandbox has the same limit

Value range(Interpreter&, const Value&, const Bound& args) {
  const auto& given = args.raw().positional;
  int64_t bounds[3] = {0, 0, 1};
  if (given.empty() || given.size() > 3 || !args.raw().named.empty()) {
    fail("range() takes one to three integers");
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const auto integer = given[i].as_integer();
    if (!integer.has_value()) {
      fail("range() takes integers, not {}", type_name(given[i]));
    }
    bounds[given.size() == 1 ? 1 : i] = *integer;
  }
  const auto [begin, end, step] = bounds;
  if (step == 0) {
    fail("the step of range() cannot be zero");
  }
  std::vector<Value> items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<int64_t>(items.size()) >= kMaxRange) {
      fail_limit("range() of more than {} items is refused", kMaxRange);
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) {
      break;
    }
  }
  return Value::list(std::move(items));
}

Value dict(Interpreter&, const Value&, const Bound& args) {
  Dict result;
  if (args.raw().positional.size() > 1) {
    fail("dict() takes at most one positional argument");
  }
  for (const Value& source : args.raw().positional) {
    if (source.as_dict() != nullptr) {
      result = *source.as_dict();
      continue;
    }
    for (const Value& pair : iterate(source)) {
      const std::vector<Value> entry = iterate(pair);
      if (entry.size() != 2) {
        fail("dict() takes pairs of key and value");
      }
      result.set(entry[0], entry[1]);
    }
  }
  for (const auto& [name, value] : args.raw().named) {
    result.set(Value::text(name, true), value);
  }
  return Value::dict(std::move(result));
}

Value name_space(Interpreter& interpreter, const Value&, const Bound& args) {
  return interpreter.make_namespace(args.raw());
}

Value raise_exception(Interpreter&, const Value&, const Bound& args) {
  fail("{}", to_text(args.required(0)).bytes());
}

Value strftime_now(Interpreter& interpreter, const Value&, const Bound& args) {
  if (interpreter.now() == nullptr) {
    fail("strftime_now() needs a clock, and none was given");
  }
  const std::string format = args.text(0).bytes();
  if (format.size() > 1024) {
    fail_limit("the format of strftime_now() has more than 1024 bytes");
  }
  // The mark at the end tells an empty result from a buffer that is too small.
  char buffer[8192];
  const size_t length =
      std::strftime(buffer, sizeof(buffer), (format + "|").c_str(), interpreter.now());
  if (length == 0) {
    fail("strftime_now() cannot write the format \"{}\"", format);
  }
  return Value::text(std::string(buffer, length - 1));
}

// joiner(", "): empty at the first call, the separator afterwards.
Value joiner(Interpreter&, const Value&, const Bound& args) {
  const MarkedText separator = args.text(0, ", ");
  return Value::callable(
      "joiner", nullptr,
      [separator, used = std::make_shared<bool>(false)](Interpreter&, const CallArgs&) {
        return Value::text(std::exchange(*used, true) ? separator : MarkedText());
      });
}

constexpr Native kGlobals[] = {
    {"dict", "*", dict},
    {"joiner", "sep", joiner},
    {"namespace", "*", name_space},
    {"raise_exception", "message", raise_exception},
    {"range", "*", range},
    {"strftime_now", "format", strftime_now},
};

}  // namespace

const Native* find_global(std::string_view name) {
  const auto found = std::find_if(std::begin(kGlobals), std::end(kGlobals),
                                  [&](const Native& native) { return native.name == name; });
  return found == std::end(kGlobals) ? nullptr : found;
}

Value Interpreter::make_namespace(const CallArgs& args) {
  const auto space = std::make_shared<Namespace>();
  const auto add = [&](const std::string& name, const Value& value) {
    if (name.starts_with('_')) {
      fail("a namespace takes no attribute that starts with an underscore, such as \"{}\"", name);
    }
    space->attributes.emplace_back(name, value);
  };
  for (const Value& source : args.positional) {
    if (source.as_dict() == nullptr) {
      fail("namespace() takes a dict, not {}", type_name(source));
    }
    for (const auto& [key, value] : source.as_dict()->entries()) {
      add(to_text(key).bytes(), value);
    }
  }
  for (const auto& [name, value] : args.named) {
    add(name, value);
  }
  namespaces_.push_back(space);
  return Value(space);
}

}  // namespace zonda::text::jinja
