// Values of the template language.
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/template_fault.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

// Equal keys have equal canonical forms; numbers compare by value.
std::string canonical_key(const Value& key) {
  if (const MarkedText* text = key.as_text()) {
    return "s" + text->bytes();
  }
  if (const auto integer = key.as_integer()) {
    return "n" + std::to_string(*integer);
  }
  if (const double* number = key.get_if<double>()) {
    const bool whole = std::abs(*number) < 9e15 && *number == std::floor(*number);
    return whole ? "n" + std::to_string(static_cast<int64_t>(*number))
                 : "f" + number_to_string(*number);
  }
  if (key.is_none()) {
    return "0";
  }
  const List* list = key.as_list();
  if (list == nullptr || !list->is_tuple()) {
    fail("a value of type {} cannot be a key of a dict", type_name(key));
  }
  std::string form = "t";
  for (const Value& item : list->items) {
    const std::string part = canonical_key(item);
    form += std::to_string(part.size()) + ":" + part;
  }
  return form;
}

int compare_lists(const List& a, const List& b) {
  for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i) {
    if (!equals(a.items[i], b.items[i])) {
      return compare(a.items[i], b.items[i]);
    }
  }
  return a.items.size() < b.items.size() ? -1 : a.items.size() > b.items.size() ? 1 : 0;
}

// Of a container that holds `item`.
uint32_t nesting_of_container(const Value& item) {
  const uint32_t levels = nesting(item) + 1;
  if (levels > kMaxNesting) {
    fail_limit("lists and dicts are nested more than {} levels deep", kMaxNesting);
  }
  return levels;
}

}  // namespace

uint32_t nesting(const Value& value) {
  if (const List* list = value.as_list()) {
    return list->nesting;
  }
  if (const Dict* dict = value.as_dict()) {
    return dict->nesting();
  }
  if (const auto* callable = value.get_if<Value::CallablePtr>()) {
    return (*callable)->nesting;
  }
  const auto* loop = value.get_if<Value::LoopPtr>();
  return loop == nullptr ? 0 : (*loop)->nesting;
}

Value Value::list(std::vector<Value> items, List::Kind kind) {
  uint32_t levels = 1;
  for (const Value& item : items) {
    levels = std::max(levels, nesting_of_container(item));
  }
  return Value(ListPtr(std::make_shared<const List>(List{std::move(items), kind, levels})));
}

Value Value::dict(Dict dict) {
  return Value(DictPtr(std::make_shared<const Dict>(std::move(dict))));
}

Value Value::callable(std::string name, const Value* self,
                      std::function<Value(Interpreter&, const CallArgs&)> call) {
  const uint32_t levels = self == nullptr ? 1 : nesting_of_container(*self);
  return Value(CallablePtr(
      std::make_shared<const Callable>(Callable{std::move(name), std::move(call), levels})));
}

std::optional<int64_t> Value::as_integer() const {
  if (const auto* integer = get_if<int64_t>()) {
    return *integer;
  }
  const auto* boolean = get_if<bool>();
  return boolean == nullptr ? std::nullopt : std::optional<int64_t>(*boolean ? 1 : 0);
}

std::optional<double> Value::as_number() const {
  if (const auto* number = get_if<double>()) {
    return *number;
  }
  const auto integer = as_integer();
  return integer.has_value() ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
}

const Value* Dict::find(const Value& key) const {
  const auto it = index_.find(canonical_key(key));
  return it == index_.end() ? nullptr : &entries_[it->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto it = index_.find("s" + std::string(key));
  return it == index_.end() ? nullptr : &entries_[it->second].second;
}

void Dict::set(const Value& key, Value value) {
  nesting_ = std::max(nesting_, nesting_of_container(value));
  const auto [it, inserted] = index_.try_emplace(canonical_key(key), entries_.size());
  if (inserted) {
    entries_.emplace_back(key, std::move(value));
  } else {
    entries_[it->second].second = std::move(value);
  }
}

std::string type_name(const Value& value) {
  if (value.get_if<bool>() != nullptr) {
    return "bool";
  }
  if (value.is_integer()) {
    return "int";
  }
  if (value.is_number()) {
    return "float";
  }
  if (const List* list = value.as_list()) {
    constexpr const char* kNames[] = {"list", "tuple", "generator", "dict view"};
    return kNames[static_cast<size_t>(list->kind)];
  }
  return value.is_undefined()                  ? "undefined"
         : value.is_none()                     ? "None"
         : value.is_text()                     ? "str"
         : value.as_dict() != nullptr          ? "dict"
         : value.get_if<Value::NamespacePtr>() ? "namespace"
         : value.get_if<Value::LoopPtr>()      ? "loop"
                                               : "function";
}

bool truthy(const Value& value) {
  if (const auto number = value.as_number()) {
    return *number != 0.0;
  }
  if (const MarkedText* text = value.as_text()) {
    return !text->empty();
  }
  if (const List* list = value.as_list()) {
    return !list->items.empty() || !list->has_length();
  }
  if (const Dict* dict = value.as_dict()) {
    return dict->size() != 0;
  }
  return !value.is_undefined() && !value.is_none();
}

bool equals(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) {
    return a.as_integer() == b.as_integer();
  }
  if (a.is_number() && b.is_number()) {
    return a.as_number() == b.as_number();
  }
  if (a.is_text() && b.is_text()) {
    return a.as_text()->bytes() == b.as_text()->bytes();
  }
  if (const List* x = a.as_list(), *y = b.as_list(); x != nullptr && y != nullptr) {
    return x->kind == y->kind &&
           std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(), equals);
  }
  if (const Dict* x = a.as_dict(), *y = b.as_dict(); x != nullptr && y != nullptr) {
    return x->size() == y->size() &&
           std::all_of(x->entries().begin(), x->entries().end(), [&](const auto& entry) {
             const Value* other = y->find(entry.first);
             return other != nullptr && equals(entry.second, *other);
           });
  }
  if (const auto* x = a.get_if<Value::NamespacePtr>(), *y = b.get_if<Value::NamespacePtr>();
      x && y) {
    return *x == *y;
  }
  if (const auto* x = a.get_if<Value::CallablePtr>(), *y = b.get_if<Value::CallablePtr>(); x && y) {
    return *x == *y;
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) {
    const int64_t x = *a.as_integer();
    const int64_t y = *b.as_integer();
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.is_number() && b.is_number()) {
    const double x = *a.as_number();
    const double y = *b.as_number();
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.is_text() && b.is_text()) {  // bytes of UTF-8 sort as code points do
    return a.as_text()->bytes().compare(b.as_text()->bytes());
  }
  if (const List* x = a.as_list(), *y = b.as_list();
      x != nullptr && y != nullptr && x->kind == y->kind) {
    return compare_lists(*x, *y);
  }
  fail("values of type {} and {} cannot be ordered", type_name(a), type_name(b));
}

std::vector<Value> iterate(const Value& value) {
  if (const List* list = value.as_list()) {
    return list->items;
  }
  std::vector<Value> items;
  if (const Dict* dict = value.as_dict()) {
    for (const auto& [key, entry] : dict->entries()) {
      items.push_back(key);
    }
  } else if (const MarkedText* text = value.as_text()) {
    for (size_t pos = 0; pos < text->size();) {
      const size_t length = utf8_length(static_cast<unsigned char>(text->bytes()[pos]));
      items.push_back(Value::text(text->substr(pos, pos + length)));
      pos += length;
    }
  } else if (!value.is_undefined()) {
    fail("a value of type {} cannot be iterated", type_name(value));
  }
  return items;
}

bool is_iterable(const Value& value) {
  return value.as_list() != nullptr || value.as_dict() != nullptr || value.is_text() ||
         value.is_undefined() || value.get_if<Value::LoopPtr>() != nullptr;
}

}  // namespace zonda::text::jinja
