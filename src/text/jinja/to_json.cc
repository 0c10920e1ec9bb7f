// json.dumps as the `tojson` filter of chat templates calls it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/natives.h"
#include "text/jinja/template_fault.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  MarkedText run(const Value& value) {
    write(value, 0);
    return std::move(out_);
  }

 private:
  void put(std::string_view bytes) { out_.append(bytes, false); }

  void write(const Value& value, size_t depth) {
    check_size(out_.size());
    if (const MarkedText* text = value.as_text()) {
      write_text(*text);
    } else if (const bool* boolean = value.get_if<bool>()) {
      put(*boolean ? "true" : "false");
    } else if (const auto integer = value.as_integer()) {
      put(std::to_string(*integer));
    } else if (const double* number = value.get_if<double>()) {
      write_number(*number);
    } else if (value.is_none()) {
      put("null");
    } else if (const List* list = value.as_list(); list != nullptr && list->has_items()) {
      write_list(*list, depth);
    } else if (const Dict* dict = value.as_dict()) {
      write_dict(*dict, depth);
    } else {
      fail("tojson() cannot express {}",
           value.is_undefined() ? value.get_if<Undefined>()->hint : type_name(value));
    }
  }

  void write_number(double number) {
    put(std::isnan(number)   ? "NaN"
        : std::isinf(number) ? (number > 0 ? "Infinity" : "-Infinity")
                             : number_to_string(number));
  }

  void new_line(size_t depth) {
    if (style_.indent.has_value()) {
      std::string line = "\n";
      for (size_t i = 0; i < depth; ++i) {
        line += *style_.indent;
      }
      put(line);
    }
  }

  void write_list(const List& list, size_t depth) {
    if (list.items.empty()) {
      put("[]");
      return;
    }
    put("[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      put(i == 0 ? "" : style_.item_separator);
      new_line(depth + 1);
      write(list.items[i], depth + 1);
    }
    new_line(depth);
    put("]");
  }

  void write_dict(const Dict& dict, size_t depth) {
    if (dict.size() == 0) {
      put("{}");
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries()) {
      entries.push_back(&entry);
    }
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
        return compare(a->first, b->first) < 0;
      });
    }
    put("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      put(i == 0 ? "" : style_.item_separator);
      new_line(depth + 1);
      write_key(entries[i]->first);
      put(style_.key_separator);
      write(entries[i]->second, depth + 1);
    }
    new_line(depth);
    put("}");
  }

  void write_key(const Value& key) {
    if (const MarkedText* text = key.as_text()) {
      write_text(*text);
      return;
    }
    if (key.as_list() != nullptr) {
      fail("tojson() cannot express a key of type {}", type_name(key));
    }
    put("\"");
    write(key, 0);
    put("\"");
  }

  void write_text(const MarkedText& text) {
    put("\"");
    const std::string& bytes = text.bytes();
    for (size_t pos = 0; pos < bytes.size();) {
      const size_t begin = pos;
      const char32_t code = next_code_point(bytes, pos);
      const std::string escape = escape_of(code);
      if (escape.empty()) {
        out_.append(std::string_view(bytes).substr(begin, pos - begin), text.from_template(begin));
      } else {
        put(escape);
      }
    }
    put("\"");
  }

  std::string escape_of(char32_t code) const {
    const auto value = static_cast<uint32_t>(code);
    switch (code) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        break;
    }
    if (value < 0x20 || (style_.ensure_ascii && value > 0x7e && value < 0x10000)) {
      return value == 0x7f ? std::string() : fmt::format("\\u{:04x}", value);
    }
    if (style_.ensure_ascii && value >= 0x10000) {
      return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((value - 0x10000) >> 10),
                         0xdc00 + (value & 0x3ff));
    }
    return {};
  }

  const JsonStyle& style_;
  MarkedText out_;
};

}  // namespace

MarkedText to_json(const Value& value, const JsonStyle& style) {
  return JsonWriter(style).run(value);
}

}  // namespace zonda::text::jinja
