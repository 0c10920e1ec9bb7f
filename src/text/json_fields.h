// Reads the fields of one JSON object of tokenizer.json and refuses those that nobody reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>

#include "base/json.h"

namespace zonda::text {

// Every accessor throws Fault (kCorrupt, naming `where` and the field) if the field has the wrong
// type or a required one is missing.
class Fields {
 public:
  // `where` names the object in messages, such as "pre_tokenizer.Split"; `object` outlives this.
  Fields(const Json& object, std::string where);

  bool has(const char* name) const;  // present and not null
  bool boolean(const char* name, bool fallback);
  bool boolean(const char* name);
  std::string string(const char* name);
  std::optional<std::string> optional_string(const char* name);
  int64_t integer(const char* name);
  // The raw value; `field` must exist.
  const Json& value(const char* name);
  const Json& array(const char* name);
  // Known to have no effect.
  void ignore(std::initializer_list<const char*> names);
  // kUnsupported if a field was not read; call it last.
  void finish() const;

  const std::string& where() const { return where_; }
  [[noreturn]] void fail(const char* name, const char* expected) const;

 private:
  const Json* find(const char* name);
  const Json& object_;
  std::string where_;
  std::set<std::string> read_;
};

// The object's "type"; Fault if it is no object or has none.
std::string component_type(const Json& json, const char* kind);
[[noreturn]] void throw_unsupported_component(const char* kind, const std::string& type);

}  // namespace zonda::text
