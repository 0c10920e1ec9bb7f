// Tokens to syntax tree: tags.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/parser.h"

namespace zonda::text::jinja {
namespace {

constexpr int kMaxDepth = 200;

std::unique_ptr<Stmt> make(Stmt::Kind kind, Position at) {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->at = at;
  return stmt;
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kData:
      return "text";
    case Token::Kind::kPrintBegin:
      return "\"{{\"";
    case Token::Kind::kPrintEnd:
      return "\"}}\"";
    case Token::Kind::kBlockBegin:
      return "\"{%\"";
    case Token::Kind::kBlockEnd:
      return "\"%}\"";
    case Token::Kind::kString:
      return "a string";
    case Token::Kind::kEnd:
      return "the end of the template";
    default:
      return "\"" + token.text + "\"";
  }
}

}  // namespace

Block parse_template(std::string_view source) { return Parser(tokenize(source)).parse_all(); }

Parser::Level::Level(Parser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxDepth) {
    --parser_.depth_;
    fail_at(parser_.peek().at, "the template is nested more than {} levels deep", kMaxDepth);
  }
}

void Parser::unexpected(std::string_view wanted) const {
  fail_at(peek().at, "expected {}, found {}", wanted, describe(peek()));
}

bool Parser::skip_operator(std::string_view name) {
  const bool found = peek().is_operator(name);
  pos_ += found ? 1 : 0;
  return found;
}

bool Parser::skip_name(std::string_view name) {
  const bool found = peek().is_name(name);
  pos_ += found ? 1 : 0;
  return found;
}

void Parser::expect_operator(std::string_view name) {
  if (!skip_operator(name)) {
    unexpected("\"" + std::string(name) + "\"");
  }
}

std::string Parser::expect_name() {
  if (peek().kind != Token::Kind::kName) {
    unexpected("a name");
  }
  return take().text;
}

Block Parser::parse_all() {
  Block block = parse_until({});
  if (peek().kind != Token::Kind::kEnd) {
    unexpected("the end of the template");
  }
  return block;
}

// Statements up to, and including, the name of one of the tags `ends`; up to the end if none.
Block Parser::parse_until(std::initializer_list<std::string_view> ends) {
  const Level level(*this);
  const Position begin = peek().at;
  Block block;
  for (;;) {
    const Token& token = peek();
    if (token.kind == Token::Kind::kEnd) {
      if (ends.size() != 0) {
        fail_at(begin, "a block has no \"{}\"", *std::prev(ends.end()));
      }
      return block;
    }
    if (token.kind == Token::Kind::kData) {
      auto stmt = make(Stmt::Kind::kData, token.at);
      stmt->text = MarkedText(token.text, true);
      block.push_back(std::move(stmt));
      take();
    } else if (token.kind == Token::Kind::kPrintBegin) {
      auto stmt = make(Stmt::Kind::kPrint, take().at);
      stmt->value = parse_tuple(true);
      if (peek().kind != Token::Kind::kPrintEnd) {
        unexpected("\"}}\"");
      }
      take();
      block.push_back(std::move(stmt));
    } else {
      take();
      const auto is_end = [&](std::string_view end) { return peek().is_name(end); };
      if (std::any_of(ends.begin(), ends.end(), is_end)) {
        return block;
      }
      block.push_back(parse_statement());
    }
  }
}

void Parser::end_block(std::string_view name) {
  if (peek().kind != Token::Kind::kBlockEnd) {
    unexpected("\"%}\" of \"" + std::string(name) + "\"");
  }
  take();
}

std::unique_ptr<Stmt> Parser::parse_statement() {
  const Position at = peek().at;
  const std::string tag = expect_name();
  if (tag == "if") {
    return parse_if();
  }
  if (tag == "for") {
    return parse_for();
  }
  if (tag == "set") {
    return parse_set();
  }
  if (tag == "macro") {
    return parse_macro();
  }
  if (tag == "call") {
    return parse_call_block();
  }
  if (tag == "filter") {
    return parse_filter_block();
  }
  if (tag == "with") {
    return parse_with();
  }
  if (tag == "generation") {
    return parse_generation();
  }
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) {
      fail_at(at, "\"{}\" outside of a loop", tag);
    }
    end_block(tag);
    return make(tag == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue, at);
  }
  if (tag == "include" || tag == "import" || tag == "from" || tag == "extends" || tag == "block" ||
      tag == "autoescape") {
    fail_unsupported(at, "the tag \"{}\" is not supported", tag);
  }
  fail_at(at, "unknown tag \"{}\"", tag);
}

std::unique_ptr<Stmt> Parser::parse_if() {
  auto stmt = make(Stmt::Kind::kIf, peek().at);
  stmt->value = parse_tuple(false);
  end_block("if");
  stmt->body = parse_until({"elif", "else", "endif"});
  const std::string next = take().text;
  if (next == "elif") {
    const Level level(*this);
    stmt->otherwise.push_back(parse_if());
    return stmt;
  }
  if (next == "else") {
    end_block("else");
    stmt->otherwise = parse_until({"endif"});
    take();
  }
  end_block("endif");
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_for() {
  auto stmt = make(Stmt::Kind::kFor, peek().at);
  stmt->target = parse_target(false);
  if (!skip_name("in")) {
    unexpected("\"in\"");
  }
  stmt->value = parse_tuple(false);
  if (skip_name("if")) {
    stmt->condition = parse_expression();
  }
  stmt->recursive = skip_name("recursive");
  end_block("for");
  ++loops_;
  stmt->body = parse_until({"else", "endfor"});
  --loops_;
  if (take().text == "else") {
    end_block("else");
    stmt->otherwise = parse_until({"endfor"});
    take();
  }
  end_block("endfor");
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_set() {
  auto stmt = make(Stmt::Kind::kSet, peek().at);
  stmt->target = parse_target(true);
  if (skip_operator("=")) {
    stmt->value = parse_tuple(true);
    end_block("set");
    return stmt;
  }
  stmt->kind = Stmt::Kind::kSetBlock;
  stmt->value = parse_filters(nullptr, false);
  end_block("set");
  stmt->body = parse_until({"endset"});
  take();
  end_block("endset");
  return stmt;
}

std::vector<Parameter> Parser::parse_parameters() {
  std::vector<Parameter> parameters;
  expect_operator("(");
  while (!skip_operator(")")) {
    if (!parameters.empty()) {
      expect_operator(",");
    }
    Parameter parameter{expect_name(), nullptr};
    if (skip_operator("=")) {
      parameter.fallback = parse_expression();
    } else if (!parameters.empty() && parameters.back().fallback != nullptr) {
      fail_at(peek().at, "parameter \"{}\" needs a default like those before it", parameter.name);
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

std::unique_ptr<Stmt> Parser::parse_macro() {
  auto stmt = make(Stmt::Kind::kMacro, peek().at);
  stmt->macro.name = expect_name();
  stmt->macro.parameters = parse_parameters();
  end_block("macro");
  parse_macro_body(stmt->macro, "endmacro");
  return stmt;
}

void Parser::parse_macro_body(MacroDef& macro, std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  MacroDef* const around = std::exchange(macro_, &macro);
  macro.body = parse_until({end});
  macro_ = around;
  loops_ = loops;
  take();
  end_block(end);
}

std::unique_ptr<Stmt> Parser::parse_call_block() {
  auto stmt = make(Stmt::Kind::kCallBlock, peek().at);
  stmt->macro.name = "caller";
  if (peek().is_operator("(")) {
    stmt->macro.parameters = parse_parameters();
  }
  stmt->value = parse_expression();
  if (stmt->value->kind != Expr::Kind::kCall) {
    fail_at(stmt->at, "a call block needs a call");
  }
  end_block("call");
  parse_macro_body(stmt->macro, "endcall");
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_filter_block() {
  auto stmt = make(Stmt::Kind::kFilter, peek().at);
  stmt->value = parse_filters(nullptr, true);
  end_block("filter");
  stmt->body = parse_until({"endfilter"});
  take();
  end_block("endfilter");
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_with() {
  auto stmt = make(Stmt::Kind::kWith, peek().at);
  while (peek().kind != Token::Kind::kBlockEnd) {
    if (!stmt->bindings.empty()) {
      expect_operator(",");
    }
    Target target = parse_target(false);
    expect_operator("=");
    stmt->bindings.emplace_back(std::move(target), parse_expression());
  }
  end_block("with");
  stmt->body = parse_until({"endwith"});
  take();
  end_block("endwith");
  return stmt;
}

// Marks what a model wrote, for training; the text itself is rendered as usual.
std::unique_ptr<Stmt> Parser::parse_generation() {
  auto stmt = make(Stmt::Kind::kScope, peek().at);
  end_block("generation");
  const int loops = std::exchange(loops_, 0);
  stmt->body = parse_until({"endgeneration"});
  loops_ = loops;
  take();
  end_block("endgeneration");
  return stmt;
}

Target Parser::parse_target(bool with_attribute) {
  Target first = parse_single_target(with_attribute);
  if (!peek().is_operator(",")) {
    return first;
  }
  Target tuple{.kind = Target::Kind::kTuple, .at = first.at};
  tuple.parts.push_back(std::move(first));
  while (skip_operator(",")) {
    if (peek().kind != Token::Kind::kName && !peek().is_operator("(")) {
      break;
    }
    tuple.parts.push_back(parse_single_target(with_attribute));
  }
  return tuple;
}

Target Parser::parse_single_target(bool with_attribute) {
  const Level level(*this);
  const Position at = peek().at;
  if (skip_operator("(")) {
    Target inner = parse_target(with_attribute);
    expect_operator(")");
    return inner;
  }
  Target target{.kind = Target::Kind::kName, .at = at, .name = expect_name()};
  if (with_attribute && skip_operator(".")) {
    target.kind = Target::Kind::kAttribute;
    target.attribute = expect_name();
  }
  return target;
}

// `name(args) | name ...`; the first filter follows directly if `start_inline`.
ExprPtr Parser::parse_filters(ExprPtr value, bool start_inline) {
  while (start_inline || skip_operator("|")) {
    start_inline = false;
    auto filter = std::make_unique<Expr>(Expr{.kind = Expr::Kind::kFilter, .at = peek().at});
    filter->name = expect_name();
    while (skip_operator(".")) {
      filter->name += "." + expect_name();
    }
    if (peek().is_operator("(")) {
      filter->arguments = parse_arguments();
    }
    filter->items.push_back(std::move(value));
    value = std::move(filter);
  }
  return value;
}

}  // namespace zonda::text::jinja
