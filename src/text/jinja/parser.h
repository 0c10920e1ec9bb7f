// Tokens to syntax tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace zonda::text::jinja {

// TemplateFault for wrong syntax and for tags that chat templates have no use for (include, import,
// extends, block).
Block parse_template(std::string_view source);

// The functions follow the grammar from the loosest to the tightest binding.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Block parse_all();

 private:
  // Statements: parser_statements.cc.
  Block parse_until(std::initializer_list<std::string_view> ends);
  std::unique_ptr<Stmt> parse_statement();
  std::unique_ptr<Stmt> parse_if();
  std::unique_ptr<Stmt> parse_for();
  std::unique_ptr<Stmt> parse_set();
  std::unique_ptr<Stmt> parse_macro();
  std::unique_ptr<Stmt> parse_call_block();
  std::unique_ptr<Stmt> parse_filter_block();
  std::unique_ptr<Stmt> parse_with();
  std::unique_ptr<Stmt> parse_generation();
  void parse_macro_body(MacroDef& macro, std::string_view end);
  std::vector<Parameter> parse_parameters();
  Target parse_target(bool with_attribute);
  Target parse_single_target(bool with_attribute);
  ExprPtr parse_filters(ExprPtr value, bool start_inline);
  void end_block(std::string_view name);

  // Expressions: parser_expressions.cc.
  ExprPtr parse_tuple(bool with_conditional);
  ExprPtr parse_expression(bool with_conditional = true);
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr value);
  ExprPtr parse_postfix_and_filters(ExprPtr value);
  ExprPtr parse_subscript(ExprPtr value);
  ExprPtr parse_subscript_index(ExprPtr value, Position at);
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_test(ExprPtr value);
  Arguments parse_arguments();

  const Token& peek() const { return tokens_[pos_]; }
  const Token& peek_after() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[pos_ + 1 < tokens_.size() ? pos_++ : pos_]; }
  bool skip_operator(std::string_view name);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view name);
  std::string expect_name();
  [[noreturn]] void unexpected(std::string_view wanted) const;

  // Counts levels of nesting for as long as it lives.
  class Level {
   public:
    explicit Level(Parser& parser);
    ~Level() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int depth_ = 0;
  MacroDef* macro_ = nullptr;  // the innermost one around
  int loops_ = 0;              // loops around the current statement, inside the current macro
};

}  // namespace zonda::text::jinja
