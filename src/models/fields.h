// Typed reading of a configuration object: each fault names the key, the value and what was
// expected. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace zonda::models {

// Reads members one after another; the first fault is kept and the reads after it change nothing. A
// member that is absent or null leaves the default, unless it is required.
class FieldReader {
 public:
  // `what` names the object in messages: "config.json". Keeps a reference to `json`.
  FieldReader(const Json& json, std::string what);

  void integer(std::string_view key, int64_t& out, int64_t least, int64_t most,
               bool required = false);
  void integer(std::string_view key, int32_t& out, int64_t least, int64_t most,
               bool required = false);
  void number(std::string_view key, float& out, double least, double most);
  void boolean(std::string_view key, bool& out);
  void string(std::string_view key, std::string& out, bool required = false);
  // An integer or a list of integers, appended to `out` without repetition.
  void token_ids(std::string_view key, std::vector<int32_t>& out);
  // Notes a fault found by the caller.
  void fail(std::string message);

  bool has(std::string_view key) const;
  const Json& at(std::string_view key) const { return json_.at(std::string(key)); }
  // The first fault as kInvalidArgument, or success.
  Result<void> result() const;

 private:
  // The member to read; null if there is none or a fault happened before.
  const Json* member(std::string_view key, bool required);

  const Json& json_;
  std::string what_;
  std::string fault_;
};

}  // namespace zonda::models
