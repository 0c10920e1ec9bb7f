// Classes of Unicode characters, read once from Oniguruma's tables.
// SPDX-License-Identifier: Apache-2.0
#include "text/char_classes.h"

#include <oniguruma.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "text/regex.h"

namespace zonda::text {
namespace {

constexpr size_t kCodePoints = 0x110000;

// Calls visit(first, last) for each range of the property.
template <typename Visit>
void for_each_range(std::string property, Visit visit) {
  auto* name = reinterpret_cast<OnigUChar*>(property.data());
  const int ctype =
      ONIG_ENCODING_UTF8->property_name_to_ctype(ONIG_ENCODING_UTF8, name, name + property.size());
  CHECK(ctype >= 0);
  OnigCodePoint single_byte_end = 0;
  const OnigCodePoint* ranges = nullptr;
  CHECK(ONIG_ENCODING_UTF8->get_ctype_code_range(static_cast<OnigCtype>(ctype), &single_byte_end,
                                                 &ranges) == ONIG_NORMAL);
  for (OnigCodePoint i = 0; i < ranges[0]; ++i) {
    visit(size_t{ranges[1 + 2 * i]}, std::min<size_t>(ranges[2 + 2 * i], kCodePoints - 1));
  }
}

}  // namespace

const CharClasses& CharClasses::get() {
  static const CharClasses classes;
  return classes;
}

CharClasses::CharClasses() {
  initialize_regex_library();
  std::vector<uint16_t> flat(kCodePoints, 0);
  const auto add = [&](const char* property, uint16_t bit) {
    for_each_range(property, [&](size_t first, size_t last) {
      for (size_t code = first; code <= last; ++code) {
        flat[code] = static_cast<uint16_t>(flat[code] | bit);
      }
    });
  };
  add("L", kLetter);
  add("M", kMark);
  add("N", kNumber);
  add("P", kPunctuation);
  add("S", kSymbol);
  add("White_Space", kSpace);
  for (const char* property : {"Alphabetic", "M", "Nd", "Pc", "Join_Control"}) {
    add(property, kWord);
  }
  add("Lu", kUpper);
  add("Lt", kUpper);
  add("Ll", kLower);

  std::map<std::vector<uint16_t>, uint16_t> seen;
  for (size_t block = 0; block < index_.size(); ++block) {
    std::vector<uint16_t> content(flat.begin() + static_cast<ptrdiff_t>(block * 256),
                                  flat.begin() + static_cast<ptrdiff_t>(block * 256 + 256));
    const auto [it, inserted] = seen.try_emplace(content, static_cast<uint16_t>(seen.size()));
    if (inserted) {
      blocks_.insert(blocks_.end(), content.begin(), content.end());
    }
    index_[block] = it->second;
  }
}

}  // namespace zonda::text
