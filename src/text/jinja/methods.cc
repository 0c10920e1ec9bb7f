// Methods of strings, lists and dicts.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/char_classes.h"
#include "text/jinja/natives.h"
#include "text/jinja/python_text.h"
#include "text/jinja/template_fault.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

const MarkedText& self_text(const Value& self) { return *self.as_text(); }

// Methods that only look at the characters.

template <typename Accept>
Value all_characters(const Value& self, Accept accept) {
  const std::u32string codes = to_code_points(self_text(self).bytes());
  return Value(!codes.empty() && std::all_of(codes.begin(), codes.end(), accept));
}

bool is_class(char32_t code, uint16_t classes) { return CharClasses::get().is(code, classes); }

Value is_alpha(Interpreter&, const Value& self, const Bound&) {
  return all_characters(self, [](char32_t code) { return is_class(code, kLetter); });
}
Value is_alnum(Interpreter&, const Value& self, const Bound&) {
  return all_characters(self, [](char32_t code) { return is_class(code, kLetter | kNumber); });
}
Value is_digit(Interpreter&, const Value& self, const Bound&) {
  return all_characters(self, [](char32_t code) { return is_class(code, kNumber); });
}
Value is_space_only(Interpreter&, const Value& self, const Bound&) {
  return all_characters(self, is_space);
}
// At least one cased character, and none of the other case.
Value is_of_case(const Value& self, uint16_t wanted, uint16_t other) {
  const std::u32string codes = to_code_points(self_text(self).bytes());
  return Value(
      std::any_of(codes.begin(), codes.end(), [&](char32_t c) { return is_class(c, wanted); }) &&
      std::none_of(codes.begin(), codes.end(), [&](char32_t c) { return is_class(c, other); }));
}
Value is_lower(Interpreter&, const Value& self, const Bound&) {
  return is_of_case(self, kLower, kUpper);
}
Value is_upper(Interpreter&, const Value& self, const Bound&) {
  return is_of_case(self, kUpper, kLower);
}

// Case.

Value upper(Interpreter&, const Value& self, const Bound&) {
  return Value::text(to_upper(self_text(self)));
}
Value lower(Interpreter&, const Value& self, const Bound&) {
  return Value::text(to_lower(self_text(self)));
}
Value capitalize_method(Interpreter&, const Value& self, const Bound&) {
  return Value::text(capitalize(self_text(self)));
}
Value title_method(Interpreter&, const Value& self, const Bound&) {
  return Value::text(title_case(self_text(self)));
}
Value swapcase(Interpreter&, const Value& self, const Bound&) {
  return Value::text(swap_case(self_text(self)));
}

// Stripping.

Value strip_sides(const Value& self, const Bound& args, bool left, bool right) {
  const std::optional<MarkedText> chars = args.optional_text(0);
  const auto set =
      chars.has_value() ? std::optional<std::string_view>(chars->bytes()) : std::nullopt;
  return Value::text(strip(self_text(self), set, left, right));
}
Value strip_both(Interpreter&, const Value& self, const Bound& args) {
  return strip_sides(self, args, true, true);
}
Value lstrip(Interpreter&, const Value& self, const Bound& args) {
  return strip_sides(self, args, true, false);
}
Value rstrip(Interpreter&, const Value& self, const Bound& args) {
  return strip_sides(self, args, false, true);
}

Value remove_prefix(Interpreter&, const Value& self, const Bound& args) {
  const MarkedText& text = self_text(self);
  const std::string prefix = args.text(0).bytes();
  return Value::text(text.bytes().starts_with(prefix) ? text.substr(prefix.size(), text.size())
                                                      : text);
}
Value remove_suffix(Interpreter&, const Value& self, const Bound& args) {
  const MarkedText& text = self_text(self);
  const std::string suffix = args.text(0).bytes();
  return Value::text(text.bytes().ends_with(suffix) ? text.substr(0, text.size() - suffix.size())
                                                    : text);
}

// Searching. Positions count characters, bounds follow Python's slices.

struct Window {
  size_t begin, end;  // bytes
};

Window window(const MarkedText& text, const Bound& args, size_t first) {
  const auto bound = [&](size_t index) {
    const Value* value = args.get(index);
    return value == nullptr ? Value(None{}) : *value;
  };
  if (args.get(first) == nullptr && args.get(first + 1) == nullptr) {
    return {0, text.size()};
  }
  const Value begin = slice(Value::text(text), bound(first), Value(None{}), Value(None{}));
  const Value head = slice(Value::text(text), Value(None{}), bound(first + 1), Value(None{}));
  const size_t skipped = text.size() - begin.as_text()->size();
  return {skipped, std::max(skipped, head.as_text()->size())};
}

template <typename Matches>
Value any_affix(const Value& self, const Bound& args, Matches matches) {
  const MarkedText& text = self_text(self);
  const auto [begin, end] = window(text, args, 1);
  const std::string_view part = std::string_view(text.bytes()).substr(begin, end - begin);
  const Value& affix = args.required(0);
  const std::vector<Value> choices =
      affix.as_list() != nullptr ? affix.as_list()->items : std::vector<Value>{affix};
  return Value(std::any_of(choices.begin(), choices.end(), [&](const Value& choice) {
    return matches(part, expect_text(choice, args.function()).bytes());
  }));
}

Value startswith(Interpreter&, const Value& self, const Bound& args) {
  return any_affix(self, args, [](std::string_view text, const std::string& prefix) {
    return text.starts_with(prefix);
  });
}
Value endswith(Interpreter&, const Value& self, const Bound& args) {
  return any_affix(self, args, [](std::string_view text, const std::string& suffix) {
    return text.ends_with(suffix);
  });
}

int64_t find_position(const Value& self, const Bound& args, bool last) {
  const MarkedText& text = self_text(self);
  const auto [begin, end] = window(text, args, 1);
  const std::string_view part = std::string_view(text.bytes()).substr(begin, end - begin);
  const std::string wanted = args.text(0).bytes();
  const size_t found = last ? part.rfind(wanted) : part.find(wanted);
  return found == std::string_view::npos
             ? -1
             : static_cast<int64_t>(
                   count_code_points(std::string_view(text.bytes()).substr(0, begin + found)));
}
Value find(Interpreter&, const Value& self, const Bound& args) {
  return Value(find_position(self, args, false));
}
Value rfind(Interpreter&, const Value& self, const Bound& args) {
  return Value(find_position(self, args, true));
}
Value index_of(const Value& self, const Bound& args, bool last) {
  const int64_t position = find_position(self, args, last);
  if (position < 0) {
    fail("{}(): the substring was not found", args.function());
  }
  return Value(position);
}
Value index(Interpreter&, const Value& self, const Bound& args) {
  return index_of(self, args, false);
}
Value rindex(Interpreter&, const Value& self, const Bound& args) {
  return index_of(self, args, true);
}

Value count(Interpreter&, const Value& self, const Bound& args) {
  const MarkedText& text = self_text(self);
  const auto [begin, end] = window(text, args, 1);
  const std::string_view part = std::string_view(text.bytes()).substr(begin, end - begin);
  const std::string wanted = args.text(0).bytes();
  if (wanted.empty()) {
    return Value::integer(count_code_points(part) + 1);
  }
  int64_t found = 0;
  for (size_t pos = part.find(wanted); pos != std::string_view::npos;
       pos = part.find(wanted, pos + wanted.size())) {
    ++found;
  }
  return Value(found);
}

// Splitting.

// Words between white space; `limit` splits at most, the rest stays whole.
Value split_words(const MarkedText& text, int64_t limit, bool from_right) {
  std::vector<Value> words;
  MarkedText rest = strip(text, std::nullopt, !from_right, from_right);
  while (!rest.empty()) {
    size_t begin = from_right ? rest.size() : 0;
    if (limit == 0) {
      words.push_back(Value::text(strip(rest, std::nullopt, from_right, !from_right)));
      break;
    }
    for (size_t pos = 0; pos < rest.size() && !from_right;) {
      begin = pos;
      if (is_space(next_code_point(rest.bytes(), pos))) {
        break;
      }
      begin = pos;
    }
    while (from_right && begin > 0) {
      size_t before = begin - 1;
      while (before > 0 && is_utf8_continuation(rest.bytes()[before])) {
        --before;
      }
      size_t pos = before;
      if (is_space(next_code_point(rest.bytes(), pos))) {
        break;
      }
      begin = before;
    }
    words.push_back(
        Value::text(from_right ? rest.substr(begin, rest.size()) : rest.substr(0, begin)));
    rest = strip(from_right ? rest.substr(0, begin) : rest.substr(begin, rest.size()), std::nullopt,
                 !from_right, from_right);
    --limit;
  }
  if (from_right) {
    std::reverse(words.begin(), words.end());
  }
  return Value::list(std::move(words));
}

Value split_at(const MarkedText& text, const std::string& separator, int64_t limit,
               bool from_right) {
  if (separator.empty()) {
    fail("split() needs a separator that is not empty");
  }
  std::vector<Value> parts;
  size_t begin = 0;
  size_t end = text.size();
  for (; limit != 0; --limit) {
    const size_t found = from_right ? (end < separator.size()
                                           ? std::string::npos
                                           : text.bytes().rfind(separator, end - separator.size()))
                                    : text.bytes().find(separator, begin);
    if (found == std::string::npos) {
      break;
    }
    parts.push_back(Value::text(from_right ? text.substr(found + separator.size(), end)
                                           : text.substr(begin, found)));
    (from_right ? end : begin) = from_right ? found : found + separator.size();
  }
  parts.push_back(Value::text(text.substr(begin, end)));
  if (from_right) {
    std::reverse(parts.begin(), parts.end());
  }
  return Value::list(std::move(parts));
}

Value split_any(const Value& self, const Bound& args, bool from_right) {
  const std::optional<MarkedText> separator = args.optional_text(0);
  const int64_t limit = args.integer(1, -1);
  return separator.has_value() ? split_at(self_text(self), separator->bytes(), limit, from_right)
                               : split_words(self_text(self), limit, from_right);
}
Value split(Interpreter&, const Value& self, const Bound& args) {
  return split_any(self, args, false);
}
Value rsplit(Interpreter&, const Value& self, const Bound& args) {
  return split_any(self, args, true);
}

Value splitlines(Interpreter&, const Value& self, const Bound& args) {
  constexpr std::u32string_view kBreaks = U"\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029";
  const MarkedText& text = self_text(self);
  const bool keep = args.boolean(0, false);
  std::vector<Value> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = pos;
    const char32_t code = next_code_point(text.bytes(), pos);
    if (kBreaks.find(code) == std::u32string_view::npos) {
      continue;
    }
    if (code == U'\r' && pos < text.size() && text.bytes()[pos] == '\n') {
      ++pos;
    }
    lines.push_back(Value::text(text.substr(begin, keep ? pos : end)));
    begin = pos;
  }
  if (begin < text.size()) {
    lines.push_back(Value::text(text.substr(begin, text.size())));
  }
  return Value::list(std::move(lines));
}

Value partition_at(const Value& self, const Bound& args, bool last) {
  const MarkedText& text = self_text(self);
  const MarkedText separator = args.text(0);
  if (separator.empty()) {
    fail("partition() needs a separator that is not empty");
  }
  const size_t found =
      last ? text.bytes().rfind(separator.bytes()) : text.bytes().find(separator.bytes());
  const Value empty = Value::text("");
  if (found == std::string::npos) {
    return Value::tuple(last ? std::vector<Value>{empty, empty, self}
                             : std::vector<Value>{self, empty, empty});
  }
  const size_t after = found + separator.size();
  return Value::tuple({Value::text(text.substr(0, found)), Value::text(text.substr(found, after)),
                       Value::text(text.substr(after, text.size()))});
}
Value partition(Interpreter&, const Value& self, const Bound& args) {
  return partition_at(self, args, false);
}
Value rpartition(Interpreter&, const Value& self, const Bound& args) {
  return partition_at(self, args, true);
}

// Building.

Value replace_method(Interpreter&, const Value& self, const Bound& args) {
  return Value::text(
      replace(self_text(self), args.text(0).bytes(), args.text(1), args.integer(2, -1)));
}

Value join_method(Interpreter&, const Value& self, const Bound& args) {
  const std::vector<Value> items = iterate(args.required(0));
  for (const Value& item : items) {
    expect_text(item, "join");
  }
  return join(items, self_text(self));
}

Value justify(const Value& self, const Bound& args, char align) {
  const int64_t width = args.integer(0, 0);
  check_size(width < 0 ? 0 : static_cast<size_t>(width) * 4);
  const auto length = static_cast<int64_t>(count_code_points(self_text(self).bytes()));
  const int64_t missing = std::max<int64_t>(width - length, 0);
  // The odd one of two sides goes where Python puts it.
  const int64_t left = align == '<'   ? 0
                       : align == '>' ? missing
                                      : missing / 2 + (missing & width & 1);
  const MarkedText fill = args.text(1, " ");
  MarkedText out;
  for (int64_t i = 0; i < left; ++i) {
    out.append(fill);
  }
  out.append(self_text(self));
  for (int64_t i = left; i < missing; ++i) {
    out.append(fill);
  }
  return Value::text(std::move(out));
}
Value ljust(Interpreter&, const Value& self, const Bound& args) { return justify(self, args, '<'); }
Value rjust(Interpreter&, const Value& self, const Bound& args) { return justify(self, args, '>'); }
Value center(Interpreter&, const Value& self, const Bound& args) {
  return justify(self, args, '^');
}

Value zfill(Interpreter&, const Value& self, const Bound& args) {
  const MarkedText& text = self_text(self);
  const int64_t width = args.integer(0, 0);
  check_size(width < 0 ? 0 : static_cast<size_t>(width));
  const size_t sign = text.bytes().starts_with('-') || text.bytes().starts_with('+') ? 1 : 0;
  const auto missing = width - static_cast<int64_t>(count_code_points(text.bytes()));
  MarkedText out = text.substr(0, sign);
  out.append(std::string(static_cast<size_t>(std::max<int64_t>(missing, 0)), '0'), false);
  out.append(text.substr(sign, text.size()));
  return Value::text(std::move(out));
}

Value format(Interpreter& interpreter, const Value& self, const Bound& args) {
  return brace_format(interpreter, self_text(self), args.raw());
}

// Lists.

Value list_count(Interpreter&, const Value& self, const Bound& args) {
  const auto& items = self.as_list()->items;
  return Value(
      static_cast<int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
        return equals(item, args.required(0));
      })));
}

Value list_index(Interpreter&, const Value& self, const Bound& args) {
  const auto& items = self.as_list()->items;
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& item) {
    return equals(item, args.required(0));
  });
  if (found == items.end()) {
    fail("index(): the value is not in the list");
  }
  return Value(static_cast<int64_t>(found - items.begin()));
}

Value copy(Interpreter&, const Value& self, const Bound&) { return self; }

// Dicts.

Value get(Interpreter&, const Value& self, const Bound& args) {
  const Value* found = self.as_dict()->find(args.required(0));
  return found != nullptr ? *found : args.get(1) != nullptr ? *args.get(1) : Value(None{});
}

template <typename Pick>
Value pick_entries(const Value& self, Pick pick) {
  std::vector<Value> picked;
  for (const auto& entry : self.as_dict()->entries()) {
    picked.push_back(pick(entry));
  }
  return Value::list(std::move(picked), List::Kind::kView);
}
Value keys(Interpreter&, const Value& self, const Bound&) {
  return pick_entries(self, [](const auto& entry) { return entry.first; });
}
Value values(Interpreter&, const Value& self, const Bound&) {
  return pick_entries(self, [](const auto& entry) { return entry.second; });
}
Value items(Interpreter&, const Value& self, const Bound&) {
  return pick_entries(self, [](const auto& entry) {
    return Value::tuple({entry.first, entry.second});
  });
}

constexpr Native kTextMethods[] = {
    {"capitalize", "", capitalize_method},
    {"casefold", "", lower},
    {"center", "width,fillchar", center},
    {"count", "sub,start,end", count},
    {"endswith", "suffix,start,end", endswith},
    {"find", "sub,start,end", find},
    {"format", "*", format},
    {"index", "sub,start,end", index},
    {"isalnum", "", is_alnum},
    {"isalpha", "", is_alpha},
    {"isdecimal", "", is_digit},
    {"isdigit", "", is_digit},
    {"islower", "", is_lower},
    {"isnumeric", "", is_digit},
    {"isspace", "", is_space_only},
    {"isupper", "", is_upper},
    {"join", "iterable", join_method},
    {"ljust", "width,fillchar", ljust},
    {"lower", "", lower},
    {"lstrip", "chars", lstrip},
    {"partition", "sep", partition},
    {"removeprefix", "prefix", remove_prefix},
    {"removesuffix", "suffix", remove_suffix},
    {"replace", "old,new,count", replace_method},
    {"rfind", "sub,start,end", rfind},
    {"rindex", "sub,start,end", rindex},
    {"rjust", "width,fillchar", rjust},
    {"rpartition", "sep", rpartition},
    {"rsplit", "sep,maxsplit", rsplit},
    {"rstrip", "chars", rstrip},
    {"split", "sep,maxsplit", split},
    {"splitlines", "keepends", splitlines},
    {"startswith", "prefix,start,end", startswith},
    {"strip", "chars", strip_both},
    {"swapcase", "", swapcase},
    {"title", "", title_method},
    {"upper", "", upper},
    {"zfill", "width", zfill},
};
constexpr Native kListMethods[] = {
    {"copy", "", copy},
    {"count", "value", list_count},
    {"index", "value", list_index},
};
constexpr Native kDictMethods[] = {
    {"copy", "", copy}, {"get", "key,default", get}, {"items", "", items},
    {"keys", "", keys}, {"values", "", values},
};

const Native* find_in(std::span<const Native> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Native& native) { return native.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

const Native* find_text_method(std::string_view name) { return find_in(kTextMethods, name); }
const Native* find_list_method(std::string_view name) { return find_in(kListMethods, name); }
const Native* find_dict_method(std::string_view name) { return find_in(kDictMethods, name); }

}  // namespace zonda::text::jinja
