// Variables of a template from JSON.
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/from_json.h"

#include <algorithm>

#include "text/jinja/template_fault.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

bool is_usual_role(std::string_view role) {
  constexpr std::string_view kRoles[] = {
      "system",   "user",    "assistant", "tool", "developer",   "model",      "human",
      "function", "ipython", "gpt",       "bot",  "observation", "environment"};
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

}  // namespace

Value from_json(const OrderedJson& json, bool from_template) {
  switch (json.type()) {
    case OrderedJson::value_t::null:
      return Value(None{});
    case OrderedJson::value_t::boolean:
      return Value(json.get<bool>());
    case OrderedJson::value_t::number_integer:
      return Value(json.get<int64_t>());
    case OrderedJson::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        return Value(json.get<double>());
      }
      return Value(json.get<int64_t>());
    case OrderedJson::value_t::number_float:
      return Value(json.get<double>());
    case OrderedJson::value_t::string:
      return Value::text(to_valid_utf8(json.get_ref<const std::string&>()), from_template);
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const OrderedJson& item : json) {
        items.push_back(from_json(item, from_template));
      }
      return Value::list(std::move(items));
    }
    case OrderedJson::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        const bool role =
            key == "role" && item.is_string() && is_usual_role(item.get_ref<const std::string&>());
        dict.set(Value::text(to_valid_utf8(key), from_template),
                 from_json(item, from_template || role));
      }
      return Value::dict(std::move(dict));
    }
    default:
      fail("a variable has a value that JSON cannot express");
  }
}

}  // namespace zonda::text::jinja
