// Tokens to syntax tree: expressions.
// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "text/jinja/parser.h"

namespace zonda::text::jinja {
namespace {

ExprPtr make(Expr::Kind kind, Position at) {
  return std::make_unique<Expr>(Expr{.kind = kind, .at = at});
}

template <typename... Items>
ExprPtr make(Expr::Kind kind, Position at, std::string name, Items... items) {
  ExprPtr expr = make(kind, at);
  expr->name = std::move(name);
  (expr->items.push_back(std::move(items)), ...);
  return expr;
}

ExprPtr constant(Position at, Value value) {
  ExprPtr expr = make(Expr::Kind::kConstant, at);
  expr->constant = std::move(value);
  return expr;
}

Value integer_value(const Token& token) {
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] < '0' || digits[1] > '9')) {
    base = digits[1] == 'x' ? 16 : digits[1] == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
    fail_at(token.at, "the number {} does not fit 64 bits", token.text);
  }
  return Value(value);
}

Value float_value(const Token& token) {
  double value = 0;
  const auto result =
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (result.ec != std::errc()) {
    fail_at(token.at, "the number {} does not fit a float", token.text);
  }
  return Value(value);
}

bool is_constant_name(const std::string& name, Value& value) {
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    value = Value(name[0] == 't' || name[0] == 'T');
    return true;
  }
  if (name == "none" || name == "None") {
    value = Value(None{});
    return true;
  }
  return false;
}

}  // namespace

// One expression, or several with commas between them.
ExprPtr Parser::parse_tuple(bool with_conditional) {
  const Position at = peek().at;
  ExprPtr first = parse_expression(with_conditional);
  if (!peek().is_operator(",")) {
    return first;
  }
  ExprPtr tuple = make(Expr::Kind::kTuple, at);
  tuple->items.push_back(std::move(first));
  while (skip_operator(",")) {
    const Token& next = peek();
    if (next.kind == Token::Kind::kPrintEnd || next.kind == Token::Kind::kBlockEnd ||
        next.is_operator(")") || next.is_operator("]") || next.is_name("recursive")) {
      break;
    }
    tuple->items.push_back(parse_expression(with_conditional));
  }
  return tuple;
}

ExprPtr Parser::parse_expression(bool with_conditional) {
  const Level level(*this);
  ExprPtr value = parse_or();
  while (with_conditional && peek().is_name("if")) {
    const Position at = take().at;
    ExprPtr condition = parse_or();
    ExprPtr otherwise = skip_name("else") ? parse_expression() : nullptr;
    value = make(Expr::Kind::kConditional, at, "", std::move(condition), std::move(value),
                 std::move(otherwise));
  }
  return value;
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  while (peek().is_name("or")) {
    const Position at = take().at;
    left = make(Expr::Kind::kOr, at, "", std::move(left), parse_and());
  }
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  while (peek().is_name("and")) {
    const Position at = take().at;
    left = make(Expr::Kind::kAnd, at, "", std::move(left), parse_not());
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (peek().is_name("not")) {
    const Level level(*this);
    const Position at = take().at;
    return make(Expr::Kind::kNot, at, "", parse_not());
  }
  return parse_compare();
}

ExprPtr Parser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr compare;
  for (;;) {
    const Token& token = peek();
    const Position at = token.at;
    std::string name;
    if (token.kind == Token::Kind::kOperator &&
        (token.text == "==" || token.text == "!=" || token.text == "<" || token.text == "<=" ||
         token.text == ">" || token.text == ">=")) {
      name = take().text;
    } else if (skip_name("in")) {
      name = "in";
    } else if (token.is_name("not") && peek_after().is_name("in")) {
      take();
      take();
      name = "notin";
    } else {
      return compare == nullptr ? std::move(first) : std::move(compare);
    }
    if (compare == nullptr) {
      compare = make(Expr::Kind::kCompare, at, "", std::move(first));
    }
    compare->operators.push_back(std::move(name));
    compare->items.push_back(parse_sum());
  }
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (peek().is_operator("+") || peek().is_operator("-")) {
    const Token& token = take();
    left = make(Expr::Kind::kBinary, token.at, token.text, std::move(left), parse_concat());
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  ExprPtr first = parse_product();
  if (!peek().is_operator("~")) {
    return first;
  }
  ExprPtr concat = make(Expr::Kind::kConcat, peek().at, "", std::move(first));
  while (skip_operator("~")) {
    concat->items.push_back(parse_product());
  }
  return concat;
}

ExprPtr Parser::parse_product() {
  ExprPtr left = parse_power();
  while (peek().is_operator("*") || peek().is_operator("/") || peek().is_operator("//") ||
         peek().is_operator("%")) {
    const Token& token = take();
    left = make(Expr::Kind::kBinary, token.at, token.text, std::move(left), parse_power());
  }
  return left;
}

ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (peek().is_operator("**")) {
    const Position at = take().at;
    left = make(Expr::Kind::kBinary, at, "**", std::move(left), parse_unary(true));
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filters) {
  const Level level(*this);
  const Position at = peek().at;
  ExprPtr value;
  if (skip_operator("-")) {
    value = make(Expr::Kind::kNegative, at, "", parse_unary(false));
  } else if (skip_operator("+")) {
    value = make(Expr::Kind::kPositive, at, "", parse_unary(false));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_postfix_and_filters(std::move(value)) : std::move(value);
}

ExprPtr Parser::parse_primary() {
  const Token& token = peek();
  const Position at = token.at;
  switch (token.kind) {
    case Token::Kind::kName: {
      Value value;
      const std::string name = take().text;
      if (macro_ != nullptr) {
        macro_->uses_caller |= name == "caller";
        macro_->uses_varargs |= name == "varargs";
        macro_->uses_kwargs |= name == "kwargs";
      }
      return is_constant_name(name, value) ? constant(at, std::move(value))
                                           : make(Expr::Kind::kName, at, name);
    }
    case Token::Kind::kString: {
      std::string text;
      while (peek().kind == Token::Kind::kString) {
        text += take().text;
      }
      return constant(at, Value::text(std::move(text), true));
    }
    case Token::Kind::kInteger:
      return constant(at, integer_value(take()));
    case Token::Kind::kFloat:
      return constant(at, float_value(take()));
    default:
      break;
  }
  if (skip_operator("(")) {
    if (skip_operator(")")) {
      return make(Expr::Kind::kTuple, at);
    }
    ExprPtr inner = parse_tuple(true);
    expect_operator(")");
    return inner;
  }
  if (skip_operator("[")) {
    ExprPtr list = make(Expr::Kind::kList, at);
    while (!skip_operator("]")) {
      if (!list->items.empty()) {
        expect_operator(",");
        if (skip_operator("]")) {
          break;
        }
      }
      list->items.push_back(parse_expression());
    }
    return list;
  }
  if (skip_operator("{")) {
    return parse_dict();
  }
  unexpected("an expression");
}

ExprPtr Parser::parse_dict() {
  ExprPtr dict = make(Expr::Kind::kDict, peek().at);
  while (!skip_operator("}")) {
    if (!dict->items.empty()) {
      expect_operator(",");
      if (skip_operator("}")) {
        break;
      }
    }
    dict->items.push_back(parse_expression());
    expect_operator(":");
    dict->items.push_back(parse_expression());
  }
  return dict;
}

ExprPtr Parser::parse_postfix(ExprPtr value) {
  for (;;) {
    if (peek().is_operator(".") || peek().is_operator("[")) {
      value = parse_subscript(std::move(value));
    } else if (peek().is_operator("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExprPtr Parser::parse_postfix_and_filters(ExprPtr value) {
  for (;;) {
    if (peek().is_operator("|")) {
      value = parse_filters(std::move(value), false);
    } else if (peek().is_name("is")) {
      value = parse_test(std::move(value));
    } else if (peek().is_operator("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr value) {
  const Position at = peek().at;
  if (skip_operator(".")) {
    if (peek().kind == Token::Kind::kInteger) {
      ExprPtr index = constant(peek().at, integer_value(peek()));
      take();
      return make(Expr::Kind::kItem, at, "", std::move(value), std::move(index));
    }
    return make(Expr::Kind::kAttribute, at, expect_name(), std::move(value));
  }
  expect_operator("[");
  ExprPtr result = parse_subscript_index(std::move(value), at);
  expect_operator("]");
  return result;
}

ExprPtr Parser::parse_subscript_index(ExprPtr value, Position at) {
  ExprPtr bounds[3];
  size_t colons = 0;
  const auto at_bound_end = [&] { return peek().is_operator(":") || peek().is_operator("]"); };
  if (!at_bound_end()) {
    bounds[0] = parse_expression();
  }
  while (colons < 2 && skip_operator(":")) {
    ++colons;
    if (!at_bound_end()) {
      bounds[colons] = parse_expression();
    }
  }
  if (colons > 0) {
    return make(Expr::Kind::kSlice, at, "", std::move(value), std::move(bounds[0]),
                std::move(bounds[1]), std::move(bounds[2]));
  }
  if (bounds[0] == nullptr) {
    unexpected("an index");
  }
  if (peek().is_operator(",")) {
    ExprPtr tuple = make(Expr::Kind::kTuple, at, "", std::move(bounds[0]));
    while (skip_operator(",")) {
      tuple->items.push_back(parse_expression());
    }
    bounds[0] = std::move(tuple);
  }
  return make(Expr::Kind::kItem, at, "", std::move(value), std::move(bounds[0]));
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  ExprPtr call = make(Expr::Kind::kCall, peek().at, "", std::move(callee));
  call->arguments = parse_arguments();
  return call;
}

Arguments Parser::parse_arguments() {
  Arguments arguments;
  expect_operator("(");
  bool first = true;
  while (!skip_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (skip_operator(")")) {
        break;
      }
    }
    first = false;
    const Position at = peek().at;
    if (skip_operator("*")) {
      arguments.spread = parse_expression();
    } else if (skip_operator("**")) {
      arguments.named_spread = parse_expression();
    } else if (peek().kind == Token::Kind::kName && peek_after().is_operator("=")) {
      std::string name = take().text;
      take();
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else if (!arguments.named.empty() || arguments.spread || arguments.named_spread) {
      fail_at(at, "a positional argument follows a named one");
    } else {
      arguments.positional.push_back(parse_expression());
    }
  }
  return arguments;
}

ExprPtr Parser::parse_test(ExprPtr value) {
  const Position at = take().at;
  const bool negated = skip_name("not");
  ExprPtr test = make(Expr::Kind::kTest, at, expect_name(), std::move(value));
  while (skip_operator(".")) {
    test->name += "." + expect_name();
  }
  const Token& next = peek();
  const bool operand = next.kind == Token::Kind::kName || next.kind == Token::Kind::kString ||
                       next.kind == Token::Kind::kInteger || next.kind == Token::Kind::kFloat ||
                       next.is_operator("[") || next.is_operator("{");
  if (next.is_operator("(")) {
    test->arguments = parse_arguments();
  } else if (operand && !next.is_name("else") && !next.is_name("or") && !next.is_name("and")) {
    if (next.is_name("is")) {
      fail_at(next.at, "tests cannot be chained with \"is\"");
    }
    if (!next.is_name("if") && !next.is_name("in") && !next.is_name("not") &&
        !next.is_name("recursive")) {
      test->arguments.positional.push_back(parse_postfix(parse_primary()));
    }
  }
  return negated ? make(Expr::Kind::kNot, at, "", std::move(test)) : std::move(test);
}

}  // namespace zonda::text::jinja
