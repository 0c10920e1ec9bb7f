// value.name and value[key].
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/natives.h"
#include "text/jinja/template_fault.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

// A method of `self` as a value that can be called.
Value bind_method(const Native& native, const Value& self) {
  return Value::callable(std::string(native.name), &self,
                         [&native, self](Interpreter& interpreter, const CallArgs& args) {
                           return native.function(interpreter, self,
                                                  Bound(native.name, native.parameters, args));
                         });
}

const Native* find_method(const Value& value, std::string_view name) {
  if (value.is_text()) {
    return find_text_method(name);
  }
  if (value.as_list() != nullptr && value.as_list()->has_items()) {
    return find_list_method(name);
  }
  return value.as_dict() != nullptr ? find_dict_method(name) : nullptr;
}

// Values are immutable here, as in the sandbox that the reference uses.
void refuse_mutation(const Value& value, std::string_view name) {
  constexpr std::string_view kMutating[] = {"append",     "clear",  "extend",  "insert",
                                            "pop",        "remove", "reverse", "sort",
                                            "setdefault", "update", "popitem"};
  if ((value.as_list() != nullptr || value.as_dict() != nullptr) &&
      std::find(std::begin(kMutating), std::end(kMutating), name) != std::end(kMutating)) {
    fail("\"{}\" would change a {}: templates may not change their values", name, type_name(value));
  }
}

Value loop_neighbour(const Loop& loop, bool next) {
  const bool exists = next ? loop.index + 1 < loop.items.size() : loop.index > 0;
  if (!exists) {
    return Value::undefined(next ? "there is no next item" : "there is no previous item");
  }
  return loop.items[next ? loop.index + 1 : loop.index - 1];
}

Value loop_cycle(const Value::LoopPtr& loop) {
  return Value::callable("cycle", nullptr, [loop](Interpreter&, const CallArgs& args) {
    if (args.positional.empty()) {
      fail("loop.cycle() needs arguments");
    }
    return args.positional[loop->index % args.positional.size()];
  });
}

Value loop_changed(const Value::LoopPtr& loop) {
  return Value::callable("changed", nullptr, [loop](Interpreter&, const CallArgs& args) {
    const bool same =
        loop->changed_called && std::equal(loop->changed.begin(), loop->changed.end(),
                                           args.positional.begin(), args.positional.end(), equals);
    loop->changed = args.positional;
    loop->changed_called = true;
    return Value(!same);
  });
}

const Value* find_attribute(const Namespace& space, std::string_view name) {
  for (const auto& [known, value] : space.attributes) {
    if (known == name) {
      return &value;
    }
  }
  return nullptr;
}

Value text_item(const MarkedText& text, int64_t index) {
  const auto count = static_cast<int64_t>(count_code_points(text.bytes()));
  const int64_t at = index < 0 ? index + count : index;
  if (at < 0 || at >= count) {
    return Value::undefined(fmt::format("a string of {} characters has no item {}", count, index));
  }
  size_t pos = 0;
  for (int64_t i = 0; i < at; ++i) {
    next_code_point(text.bytes(), pos);
  }
  size_t end = pos;
  next_code_point(text.bytes(), end);
  return Value::text(text.substr(pos, end));
}

Value list_item(const List& list, int64_t index) {
  const auto count = static_cast<int64_t>(list.items.size());
  const int64_t at = index < 0 ? index + count : index;
  if (at < 0 || at >= count) {
    return Value::undefined(fmt::format("a list of {} items has no item {}", count, index));
  }
  return list.items[static_cast<size_t>(at)];
}

}  // namespace

void fail_undefined(const Value& value) {
  const auto* undefined = value.get_if<Undefined>();
  fail("{}", undefined->hint.empty() ? std::string("the value is undefined") : undefined->hint);
}

Value Interpreter::loop_attribute(const Value::LoopPtr& loop, std::string_view name) {
  const size_t count = loop->items.size();
  if (name == "index" || name == "index0") {
    return Value::integer(loop->index + (name == "index" ? 1 : 0));
  }
  if (name == "revindex" || name == "revindex0") {
    return Value::integer(count - loop->index - (name == "revindex" ? 0 : 1));
  }
  if (name == "first" || name == "last") {
    return Value(name == "first" ? loop->index == 0 : loop->index + 1 == count);
  }
  if (name == "length") {
    return Value::integer(count);
  }
  if (name == "depth" || name == "depth0") {
    return Value::integer(loop->depth - (name == "depth" ? 0 : 1));
  }
  if (name == "previtem" || name == "nextitem") {
    return loop_neighbour(*loop, name == "nextitem");
  }
  if (name == "cycle") {
    return loop_cycle(loop);
  }
  if (name == "changed") {
    return loop_changed(loop);
  }
  return Value::undefined(fmt::format("a loop has no attribute \"{}\"", name));
}

Value Interpreter::attribute(const Value& value, std::string_view name) {
  if (value.is_undefined()) {
    fail_undefined(value);
  }
  if (const auto* space = value.get_if<Value::NamespacePtr>()) {
    if (const Value* found = find_attribute(**space, name)) {
      return *found;
    }
  } else if (const auto* loop = value.get_if<Value::LoopPtr>()) {
    return loop_attribute(*loop, name);
  } else if (const Native* method = find_method(value, name)) {
    return bind_method(*method, value);
  } else if (const Dict* dict = value.as_dict()) {
    if (const Value* found = dict->find(name)) {
      return *found;
    }
  } else if (const auto* callable = value.get_if<Value::CallablePtr>();
             callable && name == "name") {
    return Value::text((*callable)->name);
  }
  refuse_mutation(value, name);
  return Value::undefined(
      fmt::format("a value of type {} has no attribute \"{}\"", type_name(value), name));
}

Value Interpreter::item(const Value& value, const Value& key) {
  if (value.is_undefined()) {
    fail_undefined(value);
  }
  const auto index = key.as_integer();
  if (const Dict* dict = value.as_dict()) {
    const bool hashable = key.as_dict() == nullptr &&
                          (key.as_list() == nullptr || key.as_list()->is_tuple()) &&
                          !key.is_undefined();
    if (const Value* found = hashable ? dict->find(key) : nullptr) {
      return *found;
    }
  } else if (const List* list = value.as_list();
             list != nullptr && list->has_items() && index.has_value()) {
    return list_item(*list, *index);
  } else if (const MarkedText* text = value.as_text(); text != nullptr && index.has_value()) {
    return text_item(*text, *index);
  }
  if (const MarkedText* name = key.as_text()) {
    return attribute(value, name->bytes());
  }
  return Value::undefined(
      fmt::format("a value of type {} has no item {}", type_name(value), to_repr(key).bytes()));
}

Value follow_attribute(Interpreter& interpreter, const Value& value, const Value& attribute) {
  const MarkedText* path = attribute.as_text();
  if (path == nullptr) {
    return interpreter.item(value, attribute);
  }
  Value current = value;
  std::string_view rest = path->bytes();
  for (;;) {
    const size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    const bool number = !part.empty() && std::all_of(part.begin(), part.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    current = interpreter.item(current, number && part.size() < 10
                                            ? Value(static_cast<int64_t>(std::stoll(part)))
                                            : Value::text(part));
    if (dot == std::string_view::npos) {
      return current;
    }
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace zonda::text::jinja
