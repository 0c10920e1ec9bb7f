// Reads the fields of one JSON object of tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#include "text/json_fields.h"

#include "base/error.h"
#include "text/fault.h"

namespace zonda::text {

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) {
    throw Fault{corrupt("[tokenizer] {} is not an object.", where_)};
  }
  read_.insert("type");
}

void Fields::fail(const char* name, const char* expected) const {
  throw Fault{corrupt("[tokenizer] {}.{} is not {}.", where_, name, expected)};
}

const Json* Fields::find(const char* name) {
  read_.insert(name);
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool Fields::has(const char* name) const {
  const auto it = object_.find(name);
  return it != object_.end() && !it->is_null();
}

bool Fields::boolean(const char* name, bool fallback) {
  const Json* json = find(name);
  if (json != nullptr && !json->is_boolean()) {
    fail(name, "true or false");
  }
  return json == nullptr ? fallback : json->get<bool>();
}

bool Fields::boolean(const char* name) {
  if (!has(name)) {
    fail(name, "given");
  }
  return boolean(name, false);
}

std::optional<std::string> Fields::optional_string(const char* name) {
  const Json* json = find(name);
  if (json == nullptr) {
    return std::nullopt;
  }
  if (!json->is_string()) {
    fail(name, "a string");
  }
  return json->get<std::string>();
}

std::string Fields::string(const char* name) {
  const std::optional<std::string> value = optional_string(name);
  if (!value.has_value()) {
    fail(name, "given");
  }
  return *value;
}

int64_t Fields::integer(const char* name) {
  const Json* json = find(name);
  if (json == nullptr || !json->is_number_integer()) {
    fail(name, "an integer");
  }
  return json->get<int64_t>();
}

const Json& Fields::value(const char* name) {
  const Json* json = find(name);
  if (json == nullptr) {
    fail(name, "given");
  }
  return *json;
}

const Json& Fields::array(const char* name) {
  const Json& json = value(name);
  if (!json.is_array()) {
    fail(name, "an array");
  }
  return json;
}

void Fields::ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    read_.insert(name);
  }
}

void Fields::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (!read_.contains(name)) {
      throw Fault{
          unsupported("[tokenizer] {} has a field \"{}\" that is not supported.", where_, name)};
    }
  }
}

std::string component_type(const Json& json, const char* kind) {
  if (!json.is_object() || !json.contains("type") || !json["type"].is_string()) {
    throw Fault{corrupt("[tokenizer] {} has no \"type\".", kind)};
  }
  return json["type"].get<std::string>();
}

void throw_unsupported_component(const char* kind, const std::string& type) {
  throw Fault{unsupported("[tokenizer] {} \"{}\" is not supported.", kind, type)};
}

}  // namespace zonda::text
