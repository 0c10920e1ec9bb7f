// The one door to JSON: strict parsing with limits, printing that never throws, typed field access
// with named errors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "zonda/error.h"

namespace zonda {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // keeps the order of keys

// Refuses: syntax errors, invalid UTF-8, depth beyond 64, a repeated key, numbers out of range.
// `what` names the source in messages (a file name, "request body").
Result<Json> parse_json(std::string_view text, std::string_view what);
Result<OrderedJson> parse_ordered_json(std::string_view text, std::string_view what);
// kNotFound / kIo if the file cannot be read.
Result<Json> parse_json_file(const std::string& path);
Result<OrderedJson> parse_ordered_json_file(const std::string& path);

// Invalid UTF-8 becomes U+FFFD. indent < 0: one line.
std::string dump_json(const Json& json, int indent = -1);
std::string dump_json(const OrderedJson& json, int indent = -1);

}  // namespace zonda
