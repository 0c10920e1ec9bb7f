// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace zonda {
namespace {

constexpr int kMaxDepth = 64;

struct ParseLimit {
  std::string message;
};

// Sees each event of the parser; throws ParseLimit, which parse() turns into an Error.
template <typename J>
class LimitChecker {
 public:
  bool operator()(int depth, typename J::parse_event_t event, J& parsed) {
    using Event = typename J::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kMaxDepth) {
        throw ParseLimit{fmt::format("nesting is deeper than {} levels", kMaxDepth)};
      }
      if (event == Event::object_start) {
        keys_.emplace_back();
      }
    } else if (event == Event::object_end) {
      keys_.pop_back();
    } else if (event == Event::key) {
      const auto& key = parsed.template get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw ParseLimit{fmt::format("key \"{}\" appears twice", key)};
      }
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;
};

// The parser quotes what it read, which need not be UTF-8.
std::string printable(const char* message) {
  const std::string quoted = dump_json(Json(message));
  return quoted.substr(1, quoted.size() - 2);
}

template <typename J>
Result<J> parse(std::string_view text, std::string_view what) {
  LimitChecker<J> checker;
  try {
    return J::parse(text.begin(), text.end(),
                    [&checker](int depth, typename J::parse_event_t event, J& parsed) {
                      return checker(depth, event, parsed);
                    });
  } catch (const ParseLimit& limit) {
    return corrupt("[json] {}: {}.", what, limit.message);
  } catch (const typename J::exception& fault) {
    return corrupt("[json] {}: {}.", what, printable(fault.what()));
  }
}

template <typename J>
Result<J> parse_file(const std::string& path) {
  Result<std::string> text = read_file(path);
  if (!text.ok()) {
    return text.error();
  }
  return parse<J>(*text, path);
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) {
  return parse<Json>(text, what);
}
Result<OrderedJson> parse_ordered_json(std::string_view text, std::string_view what) {
  return parse<OrderedJson>(text, what);
}
Result<Json> parse_json_file(const std::string& path) { return parse_file<Json>(path); }
Result<OrderedJson> parse_ordered_json_file(const std::string& path) {
  return parse_file<OrderedJson>(path);
}

std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}
std::string dump_json(const OrderedJson& json, int indent) {
  return json.dump(indent, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace zonda
