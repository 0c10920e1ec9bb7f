// Filters on lists and dicts.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/natives.h"
#include "text/jinja/python_text.h"
#include "text/jinja/template_fault.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

// What comparisons look at: strings without their case, unless they are to be told apart by it.
Value comparison_key(Interpreter& interpreter, const Value& item, const Value* attribute,
                     bool case_sensitive) {
  Value key = attribute == nullptr || attribute->is_none()
                  ? item
                  : follow_attribute(interpreter, item, *attribute);
  return case_sensitive || !key.is_text() ? key : Value::text(to_lower(*key.as_text()));
}

Value length(Interpreter&, const Value& self, const Bound&) {
  if (const MarkedText* text = self.as_text()) {
    return Value::integer(count_code_points(text->bytes()));
  }
  if (const List* list = self.as_list(); list != nullptr && list->has_length()) {
    return Value::integer(list->items.size());
  }
  if (const Dict* dict = self.as_dict()) {
    return Value::integer(dict->size());
  }
  if (!self.is_undefined()) {
    fail("length() does not work on {}", type_name(self));
  }
  return Value(int64_t{0});
}

Value first(Interpreter&, const Value& self, const Bound&) {
  std::vector<Value> items = iterate(self);
  return items.empty() ? Value::undefined("the first item of an empty list is not defined")
                       : items.front();
}

Value last(Interpreter&, const Value& self, const Bound&) {
  std::vector<Value> items = iterate(self);
  return items.empty() ? Value::undefined("the last item of an empty list is not defined")
                       : items.back();
}

Value list(Interpreter&, const Value& self, const Bound&) { return Value::list(iterate(self)); }

Value reverse(Interpreter&, const Value& self, const Bound&) {
  std::vector<Value> items = iterate(self);
  std::reverse(items.begin(), items.end());
  return self.is_text() ? join(items, MarkedText())
                        : Value::list(std::move(items), List::Kind::kLazy);
}

Value join_filter(Interpreter& interpreter, const Value& self, const Bound& args) {
  std::vector<Value> items = iterate(self);
  if (const Value* attribute = args.get(1); attribute != nullptr && !attribute->is_none()) {
    for (Value& item : items) {
      item = follow_attribute(interpreter, item, *attribute);
    }
  }
  return join(items, args.get(0) == nullptr ? MarkedText() : to_text(*args.get(0)));
}

Value items(Interpreter&, const Value& self, const Bound&) {
  if (self.is_undefined()) {
    return Value::list({}, List::Kind::kLazy);
  }
  if (self.as_dict() == nullptr) {
    fail("items() needs a dict, not {}", type_name(self));
  }
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.as_dict()->entries()) {
    pairs.push_back(Value::tuple({key, value}));
  }
  return Value::list(std::move(pairs), List::Kind::kLazy);
}

Value dictsort(Interpreter& interpreter, const Value& self, const Bound& args) {
  const bool case_sensitive = args.boolean(0, false);
  const std::string by = args.text(1, "key").bytes();
  if (by != "key" && by != "value") {
    fail("dictsort() sorts by \"key\" or \"value\", not by \"{}\"", by);
  }
  if (self.as_dict() == nullptr) {
    fail("dictsort() needs a dict, not {}", type_name(self));
  }
  std::vector<std::pair<Value, Value>> entries = self.as_dict()->entries();
  const auto key_of = [&](const auto& entry) {
    return comparison_key(interpreter, by == "key" ? entry.first : entry.second, nullptr,
                          case_sensitive);
  };
  const bool descending = args.boolean(2, false);
  std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
    const int order = compare(key_of(a), key_of(b));
    return descending ? order > 0 : order < 0;
  });
  std::vector<Value> pairs;
  for (const auto& [key, value] : entries) {
    pairs.push_back(Value::tuple({key, value}));
  }
  return Value::list(std::move(pairs));
}

Value sort(Interpreter& interpreter, const Value& self, const Bound& args) {
  std::vector<Value> sorted = iterate(self);
  const bool descending = args.boolean(0, false);
  const bool case_sensitive = args.boolean(1, false);
  std::vector<Value> attributes;  // "a,b" sorts by a, then by b
  if (const Value* attribute = args.get(2); attribute != nullptr && attribute->is_text()) {
    std::string_view rest = attribute->as_text()->bytes();
    for (size_t comma = 0; comma != std::string_view::npos;
         rest.remove_prefix(std::min(comma + 1, rest.size()))) {
      comma = rest.find(',');
      attributes.push_back(Value::text(std::string(rest.substr(0, comma))));
      if (comma == std::string_view::npos) {
        break;
      }
    }
  } else if (attribute != nullptr) {
    attributes.push_back(*attribute);
  } else {
    attributes.emplace_back(None{});
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Value& a, const Value& b) {
    for (const Value& attribute : attributes) {
      const int order = compare(comparison_key(interpreter, a, &attribute, case_sensitive),
                                comparison_key(interpreter, b, &attribute, case_sensitive));
      if (order != 0) {
        return descending ? order > 0 : order < 0;
      }
    }
    return false;
  });
  return Value::list(std::move(sorted));
}

Value unique(Interpreter& interpreter, const Value& self, const Bound& args) {
  Dict seen;
  std::vector<Value> kept;
  for (Value& item : iterate(self)) {
    const Value key = comparison_key(interpreter, item, args.get(1), args.boolean(0, false));
    if (seen.find(key) == nullptr) {
      seen.set(key, Value(true));
      kept.push_back(std::move(item));
    }
  }
  return Value::list(std::move(kept), List::Kind::kLazy);
}

Value extreme(Interpreter& interpreter, const Value& self, const Bound& args, int sign) {
  const std::vector<Value> candidates = iterate(self);
  if (candidates.empty()) {
    return Value::undefined("an empty list has no smallest or largest item");
  }
  const auto key_of = [&](const Value& item) {
    return comparison_key(interpreter, item, args.get(1), args.boolean(0, false));
  };
  const Value* best = &candidates[0];
  for (const Value& item : candidates) {
    if (sign * compare(key_of(item), key_of(*best)) > 0) {
      best = &item;
    }
  }
  return *best;
}
Value max(Interpreter& interpreter, const Value& self, const Bound& args) {
  return extreme(interpreter, self, args, 1);
}
Value min(Interpreter& interpreter, const Value& self, const Bound& args) {
  return extreme(interpreter, self, args, -1);
}

Value sum(Interpreter& interpreter, const Value& self, const Bound& args) {
  Value total = args.get(1) == nullptr ? Value(int64_t{0}) : *args.get(1);
  const Value* attribute = args.get(0);
  for (const Value& item : iterate(self)) {
    total = binary("+", total,
                   attribute == nullptr || attribute->is_none()
                       ? item
                       : follow_attribute(interpreter, item, *attribute));
    interpreter.charge(total);
  }
  return total;
}

Value batch(Interpreter&, const Value& self, const Bound& args) {
  const int64_t size = args.integer(0, 0);
  if (size < 1) {
    fail("batch() needs a positive size");
  }
  check_size(static_cast<size_t>(size));
  std::vector<Value> rows;
  std::vector<Value> row;
  for (Value& item : iterate(self)) {
    row.push_back(std::move(item));
    if (static_cast<int64_t>(row.size()) == size) {
      rows.push_back(Value::list(std::exchange(row, {})));
    }
  }
  if (!row.empty()) {
    if (const Value* fill = args.get(1); fill != nullptr && !fill->is_none()) {
      row.resize(static_cast<size_t>(size), *fill);
    }
    rows.push_back(Value::list(std::move(row)));
  }
  return Value::list(std::move(rows), List::Kind::kLazy);
}

Value slice_filter(Interpreter&, const Value& self, const Bound& args) {
  const int64_t columns = args.integer(0, 0);
  if (columns < 1) {
    fail("slice() needs a positive number of slices");
  }
  check_size(static_cast<size_t>(columns) * sizeof(Value));
  const std::vector<Value> all = iterate(self);
  const auto count = static_cast<size_t>(columns);
  const size_t length = all.size() / count;
  const size_t longer = all.size() % count;
  std::vector<Value> slices;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t end = at + length + (i < longer ? 1 : 0);
    std::vector<Value> part(all.begin() + static_cast<ptrdiff_t>(at),
                            all.begin() + static_cast<ptrdiff_t>(end));
    if (const Value* fill = args.get(1); fill != nullptr && !fill->is_none() && i >= longer) {
      part.push_back(*fill);
    }
    slices.push_back(Value::list(std::move(part)));
    at = end;
  }
  return Value::list(std::move(slices), List::Kind::kLazy);
}

Value groupby(Interpreter& interpreter, const Value& self, const Bound& args) {
  const Value& attribute = args.required(0);
  const bool case_sensitive = args.boolean(2, false);
  struct Entry {
    Value key, shown, item;
  };
  std::vector<Entry> entries;
  for (Value& item : iterate(self)) {
    Value shown = follow_attribute(interpreter, item, attribute);
    if (shown.is_undefined() && args.get(1) != nullptr) {
      shown = *args.get(1);
    }
    const Value key = comparison_key(interpreter, shown, nullptr, case_sensitive);
    entries.push_back({key, std::move(shown), std::move(item)});
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return compare(a.key, b.key) < 0; });
  std::vector<Value> groups;
  for (size_t i = 0; i < entries.size();) {
    std::vector<Value> members;
    const size_t begin = i;
    for (; i < entries.size() && equals(entries[i].key, entries[begin].key); ++i) {
      members.push_back(entries[i].item);
    }
    groups.push_back(Value::tuple({entries[begin].shown, Value::list(std::move(members))}));
  }
  return Value::list(std::move(groups));
}

Value attr(Interpreter& interpreter, const Value& self, const Bound& args) {
  const Value& name = args.required(0);
  if (self.as_dict() != nullptr) {  // attributes alone, no keys
    const Native* method = find_dict_method(to_text(name).bytes());
    return method == nullptr ? Value::undefined("a dict has no such attribute")
                             : interpreter.attribute(self, method->name);
  }
  return interpreter.attribute(self, to_text(name).bytes());
}

Value default_filter(Interpreter&, const Value& self, const Bound& args) {
  const bool replace = self.is_undefined() || (args.boolean(1, false) && !truthy(self));
  return !replace ? self : args.get(0) == nullptr ? Value::text("") : *args.get(0);
}

constexpr Native kFilters[] = {
    {"attr", "name", attr},
    {"batch", "linecount,fill_with", batch},
    {"count", "", length},
    {"d", "default_value,boolean", default_filter},
    {"default", "default_value,boolean", default_filter},
    {"dictsort", "case_sensitive,by,reverse", dictsort},
    {"first", "", first},
    {"groupby", "attribute,default,case_sensitive", groupby},
    {"items", "", items},
    {"join", "d,attribute", join_filter},
    {"last", "", last},
    {"length", "", length},
    {"list", "", list},
    {"max", "case_sensitive,attribute", max},
    {"min", "case_sensitive,attribute", min},
    {"reverse", "", reverse},
    {"slice", "slices,fill_with", slice_filter},
    {"sort", "reverse,case_sensitive,attribute", sort},
    {"sum", "attribute,start", sum},
    {"unique", "case_sensitive,attribute", unique},
};

}  // namespace

std::span<const Native> sequence_filters() { return kFilters; }

}  // namespace zonda::text::jinja
