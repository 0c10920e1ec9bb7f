// Template source to tokens.
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/lexer.h"

#include <algorithm>
#include <optional>

#include "text/char_classes.h"
#include "text/jinja/string_literal.h"
#include "text/utf8.h"

namespace zonda::text::jinja {
namespace {

bool is_space(char32_t code) {
  return CharClasses::get().is(code, kSpace) || (code >= 0x1c && code <= 0x1f);
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// \r\n and \r become \n, and one newline at the end goes.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) {
    out.pop_back();
  }
  return out;
}

// Length of `text` without the white space at its end.
size_t trimmed_length(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && is_utf8_continuation(text[begin])) {
      --begin;
    }
    size_t pos = begin;
    if (!is_space(next_code_point(text, pos))) {
      break;
    }
    end = begin;
  }
  return end;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) {
      lex_data();
    }
    add(Token::Kind::kEnd, "", pos_);
    return std::move(tokens_);
  }

 private:
  enum class Tag : uint8_t { kPrint, kBlock, kComment };

  void lex_data();
  void add_data(size_t begin, size_t end, Tag next, char sign);
  void lex_tag(Tag tag);
  void lex_comment();
  bool lex_raw(size_t block);
  void lex_token();
  void lex_number();
  void lex_operator();
  bool try_end(std::string_view end, bool trim_newline);
  void skip_space();

  bool at(std::string_view text) const {
    return std::string_view(source_).substr(pos_).starts_with(text);
  }
  // Whether `word` stands here, between non-word characters.
  bool at_word(std::string_view word) const {
    if (!at(word)) {
      return false;
    }
    size_t end = pos_ + word.size();
    return end >= source_.size() || !CharClasses::get().is(next_code_point(source_, end), kWord);
  }

  void add(Token::Kind kind, std::string text, size_t at) {
    tokens_.push_back({kind, std::move(text), position(at)});
  }
  Position position(size_t at) {
    if (at < counted_) {  // only for messages about what began earlier
      counted_ = 0;
      counter_ = {1, 1};
    }
    for (; counted_ < at; ++counted_) {
      if (source_[counted_] == '\n') {
        counter_ = {counter_.line + 1, 1};
      } else if (!is_utf8_continuation(source_[counted_])) {
        ++counter_.column;
      }
    }
    return counter_;
  }
  Position position_now() { return position(pos_); }

  std::string source_;
  size_t pos_ = 0;
  std::vector<Token> tokens_;
  std::vector<char> brackets_;  // closing characters that are still to come
  bool line_starting_ = true;   // the tag before ended with a newline, or there was none
  size_t counted_ = 0;          // bytes that counter_ has passed
  Position counter_{1, 1};
};

void Lexer::lex_data() {
  const size_t begin = pos_;
  size_t tag_begin = source_.find('{', pos_);
  while (tag_begin != std::string::npos &&
         (tag_begin + 1 >= source_.size() ||
          std::string_view("{%#").find(source_[tag_begin + 1]) == std::string_view::npos)) {
    tag_begin = source_.find('{', tag_begin + 1);
  }
  if (tag_begin == std::string::npos) {
    add(Token::Kind::kData, source_.substr(begin), begin);
    pos_ = source_.size();
    return;
  }
  const char kind = source_[tag_begin + 1];
  const Tag tag = kind == '{' ? Tag::kPrint : kind == '%' ? Tag::kBlock : Tag::kComment;
  pos_ = tag_begin + 2;
  const char sign = pos_ < source_.size() && (source_[pos_] == '-' || source_[pos_] == '+')
                        ? source_[pos_]
                        : '\0';
  add_data(begin, tag_begin, tag, sign);
  pos_ += sign == '\0' ? 0 : 1;
  if (tag == Tag::kComment) {
    lex_comment();
  } else if (tag == Tag::kPrint || !lex_raw(tag_begin)) {
    add(tag == Tag::kPrint ? Token::Kind::kPrintBegin : Token::Kind::kBlockBegin, "", tag_begin);
    lex_tag(tag);
  }
}

// The text before a tag, without what the tag's sign or lstrip_blocks takes away.
void Lexer::add_data(size_t begin, size_t end, Tag next, char sign) {
  std::string_view text = std::string_view(source_).substr(begin, end - begin);
  if (sign == '-') {
    text = text.substr(0, trimmed_length(text));
  } else if (sign != '+' && next != Tag::kPrint) {
    const size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
    if ((line > 0 || line_starting_) && trimmed_length(text.substr(line)) == 0) {
      text = text.substr(0, line);
    }
  }
  if (!text.empty()) {
    add(Token::Kind::kData, std::string(text), begin);
  }
}

void Lexer::skip_space() {
  while (pos_ < source_.size()) {
    size_t next = pos_;
    if (!is_space(next_code_point(source_, next))) {
      break;
    }
    pos_ = next;
  }
}

// Moves behind the end of a tag if it stands here.
bool Lexer::try_end(std::string_view end, bool trim_newline) {
  const size_t begin = pos_;
  const bool minus = at("-" + std::string(end));
  const bool plus = trim_newline && at("+" + std::string(end));
  if (!minus && !plus && !at(end)) {
    return false;
  }
  pos_ += end.size() + (minus || plus ? 1 : 0);
  if (minus) {
    skip_space();
  } else if (!plus && trim_newline && at("\n")) {
    ++pos_;
  }
  line_starting_ = pos_ > begin && source_[pos_ - 1] == '\n';
  return true;
}

void Lexer::lex_comment() {
  const size_t end = source_.find("#}", pos_);
  if (end == std::string::npos) {
    fail_at(position_now(), "a comment is not closed by \"#}}\"");
  }
  const bool sign = end > pos_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
  pos_ = end - (sign ? 1 : 0);
  try_end("#}", true);
}

// {% raw %} ... {% endraw %}; false if another block stands here.
bool Lexer::lex_raw(size_t block) {
  const size_t start = pos_;
  skip_space();
  if (!at_word("raw")) {
    pos_ = start;
    return false;
  }
  pos_ += 3;
  skip_space();
  if (!try_end("%}", false)) {
    pos_ = start;
    return false;
  }
  const size_t begin = pos_;
  for (size_t end = source_.find("{%", begin); end != std::string::npos;
       end = source_.find("{%", end + 2)) {
    pos_ = end + 2;
    const char sign = at("-") || at("+") ? source_[pos_] : '\0';
    pos_ += sign == '\0' ? 0 : 1;
    skip_space();
    if (!at_word("endraw")) {
      continue;
    }
    pos_ += 6;
    skip_space();
    const size_t close = pos_;
    if (try_end("%}", true)) {
      const size_t after = pos_;
      pos_ = close;
      line_starting_ = source_[begin - 1] == '\n';
      add_data(begin, end, Tag::kBlock, sign);
      pos_ = after;
      line_starting_ = source_[after - 1] == '\n';
      return true;
    }
  }
  fail_at(position(block), "a raw block is not closed by \"endraw\"");
}

void Lexer::lex_tag(Tag tag) {
  const size_t begin = pos_;
  brackets_.clear();
  for (;;) {
    skip_space();
    if (pos_ >= source_.size()) {
      fail_at(position(begin), "a tag is not closed by \"{}\"", tag == Tag::kPrint ? "}}" : "%}");
    }
    const size_t end = pos_;
    if (brackets_.empty() && try_end(tag == Tag::kPrint ? "}}" : "%}", tag == Tag::kBlock)) {
      add(tag == Tag::kPrint ? Token::Kind::kPrintEnd : Token::Kind::kBlockEnd, "", end);
      return;
    }
    lex_token();
  }
}

void Lexer::lex_token() {
  const size_t begin = pos_;
  const char c = source_[pos_];
  if (is_digit(c)) {
    lex_number();
  } else if (c == '"' || c == '\'') {
    const size_t end = string_literal_end(source_, pos_);
    if (end == std::string::npos) {
      fail_at(position_now(), "a string is not closed by {}", c);
    }
    const Position at = position_now();
    pos_ = end;
    tokens_.push_back({Token::Kind::kString,
                       unescape(std::string_view(source_).substr(begin + 1, end - begin - 2), at),
                       at});
  } else if (CharClasses::get().is(
                 [&] {
                   size_t p = pos_;
                   return next_code_point(source_, p);
                 }(),
                 kWord)) {
    while (pos_ < source_.size()) {
      size_t next = pos_;
      if (!CharClasses::get().is(next_code_point(source_, next), kWord)) {
        break;
      }
      pos_ = next;
    }
    add(Token::Kind::kName, source_.substr(begin, pos_ - begin), begin);
  } else {
    lex_operator();
  }
}

void Lexer::lex_number() {
  const size_t begin = pos_;
  std::string digits;
  const auto take = [&](std::string_view accepted) {
    while (pos_ < source_.size() &&
           (accepted.find(source_[pos_]) != std::string_view::npos || source_[pos_] == '_')) {
      if (source_[pos_] != '_') {
        digits += source_[pos_];
      }
      ++pos_;
    }
  };
  constexpr std::string_view kDecimal = "0123456789";
  const char second =
      pos_ + 1 < source_.size() ? static_cast<char>(source_[pos_ + 1] | 0x20) : '\0';
  if (source_[pos_] == '0' && (second == 'x' || second == 'o' || second == 'b')) {
    digits = {'0', second};
    pos_ += 2;
    take(second == 'x' ? "0123456789abcdefABCDEF" : second == 'o' ? "01234567" : "01");
    add(Token::Kind::kInteger, digits, begin);
    return;
  }
  take(kDecimal);
  bool is_float = false;
  if (at(".") && pos_ + 1 < source_.size() && is_digit(source_[pos_ + 1])) {
    is_float = true;
    digits += '.';
    ++pos_;
    take(kDecimal);
  }
  if (at("e") || at("E")) {
    size_t exponent = pos_ + 1;
    exponent +=
        exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-') ? 1 : 0;
    if (exponent < source_.size() && is_digit(source_[exponent])) {
      is_float = true;
      digits += source_.substr(pos_, exponent - pos_);
      pos_ = exponent;
      take(kDecimal);
    }
  }
  add(is_float ? Token::Kind::kFloat : Token::Kind::kInteger, digits, begin);
}

void Lexer::lex_operator() {
  constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                             "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                             ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
  const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                  [&](std::string_view name) { return at(name); });
  if (found == std::end(kOperators)) {
    size_t end = pos_;
    next_code_point(source_, end);
    fail_at(position_now(), "unexpected character \"{}\"", source_.substr(pos_, end - pos_));
  }
  const char c = (*found)[0];
  if (found->size() == 1 && (c == '(' || c == '[' || c == '{')) {
    brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
  } else if (found->size() == 1 && (c == ')' || c == ']' || c == '}')) {
    if (brackets_.empty() || brackets_.back() != c) {
      fail_at(position_now(), "unexpected \"{}\"", c);
    }
    brackets_.pop_back();
  }
  add(Token::Kind::kOperator, std::string(*found), pos_);
  pos_ += found->size();
}

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace zonda::text::jinja
