// Arguments of native functions.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/natives.h"
#include "text/jinja/template_fault.h"

namespace zonda::text::jinja {

constexpr size_t kMaxValueBytes = size_t{64} << 20;

Bound::Bound(std::string_view function, std::string_view parameters, const CallArgs& args)
    : function_(function), args_(args) {
  if (parameters == "*") {
    return;
  }
  while (!parameters.empty()) {
    const size_t comma = std::min(parameters.find(','), parameters.size());
    names_.push_back(parameters.substr(0, comma));
    parameters.remove_prefix(std::min(comma + 1, parameters.size()));
  }
  values_.resize(names_.size(), nullptr);
  if (args.positional.size() > names_.size()) {
    fail("{}() takes at most {} arguments, got {}", function, names_.size(),
         args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); ++i) {
    values_[i] = &args.positional[i];
  }
  for (const auto& [name, value] : args.named) {
    const auto known = std::find(names_.begin(), names_.end(), name);
    if (known == names_.end()) {
      fail("{}() has no parameter \"{}\"", function, name);
    }
    const Value*& slot = values_[static_cast<size_t>(known - names_.begin())];
    if (slot != nullptr) {
      fail("{}() got two values for \"{}\"", function, name);
    }
    slot = &value;
  }
}

const Value* Bound::get(size_t index) const {
  return index < values_.size() ? values_[index] : nullptr;
}

const Value& Bound::required(size_t index) const {
  if (get(index) == nullptr) {
    fail("{}() needs the argument \"{}\"", function_, names_[index]);
  }
  return *get(index);
}

MarkedText Bound::text(size_t index) const {
  const Value& value = required(index);
  if (!value.is_text()) {
    fail("\"{}\" of {}() is a string, not {}", names_[index], function_, type_name(value));
  }
  return *value.as_text();
}

std::optional<MarkedText> Bound::optional_text(size_t index) const {
  const Value* value = get(index);
  return value == nullptr || value->is_none() ? std::nullopt : std::optional(text(index));
}

MarkedText Bound::text(size_t index, std::string_view fallback) const {
  return get(index) == nullptr ? MarkedText(std::string(fallback), false) : text(index);
}

int64_t Bound::integer(size_t index, int64_t fallback) const {
  const Value* value = get(index);
  if (value == nullptr) {
    return fallback;
  }
  const auto integer = value->as_integer();
  if (!integer.has_value()) {
    fail("\"{}\" of {}() is an integer, not {}", names_[index], function_, type_name(*value));
  }
  return *integer;
}

bool Bound::boolean(size_t index, bool fallback) const {
  return get(index) == nullptr ? fallback : truthy(*get(index));
}

const MarkedText& expect_text(const Value& value, std::string_view function) {
  if (!value.is_text()) {
    fail("{}() works on strings, not on {}", function, type_name(value));
  }
  return *value.as_text();
}

void check_size(size_t bytes) {
  if (bytes > kMaxValueBytes) {
    fail_limit("a value would have more than {} bytes", kMaxValueBytes);
  }
}

Value join(std::span<const Value> items, const MarkedText& separator) {
  MarkedText out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) {
      out.append(separator);
    }
    out.append(to_text(items[i]));
    check_size(out.size());
  }
  return Value::text(std::move(out));
}

}  // namespace zonda::text::jinja
