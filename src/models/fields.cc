// SPDX-License-Identifier: Apache-2.0
#include "models/fields.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace zonda::models {

FieldReader::FieldReader(const Json& json, std::string what) : json_(json), what_(std::move(what)) {
  if (!json_.is_object()) {
    fault_ = "is not an object";
  }
}

void FieldReader::fail(std::string message) {
  if (fault_.empty()) {
    fault_ = std::move(message);
  }
}

bool FieldReader::has(std::string_view key) const {
  const auto found = json_.is_object() ? json_.find(std::string(key)) : json_.end();
  return found != json_.end() && !found->is_null();
}

const Json* FieldReader::member(std::string_view key, bool required) {
  if (!fault_.empty()) {
    return nullptr;
  }
  if (has(key)) {
    return &at(key);
  }
  if (required) {
    fail(fmt::format("key \"{}\" is missing", key));
  }
  return nullptr;
}

void FieldReader::integer(std::string_view key, int64_t& out, int64_t least, int64_t most,
                          bool required) {
  const Json* value = member(key, required);
  if (value == nullptr) {
    return;
  }
  if (!value->is_number_integer() ||
      (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) ||
      value->get<int64_t>() < least || value->get<int64_t>() > most) {
    fail(fmt::format("\"{}\" is {}, expected an integer from {} to {}", key, dump_json(*value),
                     least, most));
    return;
  }
  out = value->get<int64_t>();
}

void FieldReader::integer(std::string_view key, int32_t& out, int64_t least, int64_t most,
                          bool required) {
  int64_t wide = out;
  integer(key, wide, least, std::min<int64_t>(most, INT32_MAX), required);
  out = static_cast<int32_t>(wide);
}

void FieldReader::number(std::string_view key, float& out, double least, double most) {
  const Json* value = member(key, false);
  if (value == nullptr) {
    return;
  }
  if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most)) {
    fail(fmt::format("\"{}\" is {}, expected a number from {} to {}", key, dump_json(*value), least,
                     most));
    return;
  }
  out = value->get<float>();
}

void FieldReader::boolean(std::string_view key, bool& out) {
  const Json* value = member(key, false);
  if (value == nullptr) {
    return;
  }
  if (!value->is_boolean()) {
    fail(fmt::format("\"{}\" is {}, expected true or false", key, dump_json(*value)));
    return;
  }
  out = value->get<bool>();
}

void FieldReader::string(std::string_view key, std::string& out, bool required) {
  const Json* value = member(key, required);
  if (value == nullptr) {
    return;
  }
  if (!value->is_string()) {
    fail(fmt::format("\"{}\" is {}, expected a string", key, dump_json(*value)));
    return;
  }
  out = value->get<std::string>();
}

void FieldReader::token_ids(std::string_view key, std::vector<int32_t>& out) {
  const Json* value = member(key, false);
  if (value == nullptr) {
    return;
  }
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) {
      fail(fmt::format("\"{}\" is {}, expected a token id or a list of them", key,
                       dump_json(*value)));
      return;
    }
    const int32_t token = id.get<int32_t>();
    if (std::find(out.begin(), out.end(), token) == out.end()) {
      out.push_back(token);
    }
  }
}

Result<void> FieldReader::result() const {
  if (fault_.empty()) {
    return {};
  }
  return invalid_argument("[{}] {}.", what_, fault_);
}

}  // namespace zonda::models
