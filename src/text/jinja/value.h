// Values of the template language: Python's, as far as templates can tell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/marked_text.h"

namespace zonda::text::jinja {

class Interpreter;
class Value;

struct None {};
// The value of a name, key or attribute that does not exist; `hint` says which.
struct Undefined {
  std::string hint;
};

// How deep containers may be nested, so that printing, comparing and freeing them cannot overflow
// the stack. Namespaces do not count: the interpreter takes them apart at the end.
inline constexpr uint32_t kMaxNesting = 200;

// Immutable, hence shared.
struct List {
  // What Python would have: a list, a tuple, the result of a lazy filter (always true, without
  // length and items), or the view that dict.items() gives (without items).
  enum class Kind : uint8_t { kList, kTuple, kLazy, kView };

  std::vector<Value> items;
  Kind kind = Kind::kList;
  uint32_t nesting = 1;

  bool is_tuple() const { return kind == Kind::kTuple; }
  bool has_length() const { return kind != Kind::kLazy; }
  bool has_items() const { return kind == Kind::kList || kind == Kind::kTuple; }
};

class Dict;
struct Namespace;
struct CallArgs;
struct Callable;
struct Loop;

class Value {
 public:
  using Text = std::shared_ptr<const MarkedText>;
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<const Dict>;
  using NamespacePtr = std::shared_ptr<Namespace>;
  using CallablePtr = std::shared_ptr<const Callable>;
  using LoopPtr = std::shared_ptr<Loop>;
  using Data = std::variant<Undefined, None, bool, int64_t, double, Text, ListPtr, DictPtr,
                            NamespacePtr, CallablePtr, LoopPtr>;

  Value() = default;  // Undefined
  template <typename T>
  requires(std::same_as<std::decay_t<T>, Undefined> || std::same_as<std::decay_t<T>, None> ||
           std::same_as<std::decay_t<T>, bool> || std::same_as<std::decay_t<T>, int64_t> ||
           std::same_as<std::decay_t<T>, double> || std::same_as<std::decay_t<T>, Text> ||
           std::same_as<std::decay_t<T>, ListPtr> || std::same_as<std::decay_t<T>, DictPtr> ||
           std::same_as<std::decay_t<T>, NamespacePtr> ||
           std::same_as<std::decay_t<T>, CallablePtr> || std::same_as<std::decay_t<T>, LoopPtr>)
      Value(T&& data)  // NOLINT
      : data_(std::in_place_type<std::decay_t<T>>, std::forward<T>(data)) {}

  static Value text(MarkedText text) {
    return Value(Text(std::make_shared<const MarkedText>(std::move(text))));
  }
  static Value text(std::string bytes, bool from_template = false) {
    return text(MarkedText(std::move(bytes), from_template));
  }
  static Value list(std::vector<Value> items, List::Kind kind = List::Kind::kList);
  static Value tuple(std::vector<Value> items) {
    return list(std::move(items), List::Kind::kTuple);
  }
  static Value dict(Dict dict);
  static Value undefined(std::string hint) { return Value(Undefined{std::move(hint)}); }
  static Value integer(size_t value) { return Value(static_cast<int64_t>(value)); }
  // `self`: the value that a bound method belongs to, or null.
  static Value callable(std::string name, const Value* self,
                        std::function<Value(Interpreter&, const CallArgs&)> call);

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return get_if<Undefined>() != nullptr; }
  bool is_none() const { return get_if<None>() != nullptr; }
  bool is_text() const { return get_if<Text>() != nullptr; }
  // Booleans are integers, as in Python.
  bool is_integer() const { return get_if<int64_t>() != nullptr || get_if<bool>() != nullptr; }
  bool is_number() const { return is_integer() || get_if<double>() != nullptr; }
  const MarkedText* as_text() const {
    const Text* text = get_if<Text>();
    return text == nullptr ? nullptr : text->get();
  }
  const List* as_list() const {
    const ListPtr* list = get_if<ListPtr>();
    return list == nullptr ? nullptr : list->get();
  }
  const Dict* as_dict() const {
    const DictPtr* dict = get_if<DictPtr>();
    return dict == nullptr ? nullptr : dict->get();
  }
  std::optional<int64_t> as_integer() const;
  std::optional<double> as_number() const;

 private:
  Data data_;
};

// Keeps the order of insertion. Keys are None, booleans, numbers, strings and tuples of them.
class Dict {
 public:
  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Replaces the value of a key that exists.
  void set(const Value& key, Value value);
  uint32_t nesting() const { return nesting_; }

 private:
  uint32_t nesting_ = 1;
  std::vector<std::pair<Value, Value>> entries_;
  std::unordered_map<std::string, size_t> index_;  // canonical form of a key -> entry
};

// namespace(): the one thing that `set` can change from an inner scope.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable {
  std::string name;
  std::function<Value(Interpreter&, const CallArgs&)> call;
  uint32_t nesting = 1;  // of the value that a bound method belongs to, plus one
};

// State of a running `for`.
struct Loop {
  std::vector<Value> items;
  size_t index = 0;
  size_t depth = 1;            // of recursive loops
  std::vector<Value> changed;  // last arguments of changed()
  bool changed_called = false;
  uint32_t nesting = 1;
  std::function<Value(Interpreter&, const Value&)> call;  // loop(items) of a recursive loop
};

// Levels of containers in the value; a fault beyond kMaxNesting when one is made.
uint32_t nesting(const Value& value);
// The name of the type in messages, as Python calls it.
std::string type_name(const Value& value);
bool truthy(const Value& value);
bool equals(const Value& a, const Value& b);
// Negative, zero or positive; a fault if Python has no order for the two.
int compare(const Value& a, const Value& b);

// str(value) and repr(value).
MarkedText to_text(const Value& value);
MarkedText to_repr(const Value& value);
std::string number_to_string(double value);

// Items of a list, keys of a dict, characters of a string; nothing for Undefined. A fault for the
// rest.
std::vector<Value> iterate(const Value& value);
bool is_iterable(const Value& value);

}  // namespace zonda::text::jinja
