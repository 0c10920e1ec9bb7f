// Runs a template: statements, expressions, scopes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace zonda::text::jinja {

struct Limits {
  size_t max_output_bytes;
  size_t max_steps;       // statements and expressions run
  size_t max_work_bytes;  // of all strings and lists that are made on the way
};

// Deepest nesting of expressions, blocks and calls while running.
inline constexpr int kMaxRunDepth = 800;

class Interpreter {
 public:
  // The program outlives this. `variables` are the names that the caller defines; `now` is null if
  // no clock was given.
  Interpreter(const Block& program, Dict variables, Limits limits, const std::tm* now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Runs the program once. TemplateFault with a position if it fails.
  MarkedText run();

  // For native functions.
  Value call(const Value& callee, const CallArgs& args);
  Value attribute(const Value& value, std::string_view name);
  Value item(const Value& value, const Value& key);
  Value filter(std::string_view name, const Value& value, const CallArgs& args);
  bool test(std::string_view name, const Value& value, const CallArgs& args);
  Value make_namespace(const CallArgs& args);
  const std::tm* now() const { return now_; }
  // Counts towards the limits.
  void charge(const Value& value);
  void count_step();

 private:
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };
  struct Scope {
    std::shared_ptr<Scope> parent;
    std::vector<std::pair<std::string, Value>> variables{};
  };
  using ScopePtr = std::shared_ptr<Scope>;
  class Level;        // one level of nesting
  class ScopeChange;  // another current scope, for as long as it lives
  class Capture;      // output into a buffer, for as long as it lives

  // Statements.
  Flow run_block(const Block& block);
  Flow run_statement(const Stmt& stmt);
  Flow run_for(const Stmt& stmt);
  Flow run_loop(const Stmt& stmt, const Value& iterable, size_t depth);
  std::vector<Value> loop_items(const Stmt& stmt, const Value& iterable);
  Flow run_iterations(const Stmt& stmt, const Value::LoopPtr& loop);
  void run_with(const Stmt& stmt);
  void run_call_block(const Stmt& stmt);
  MarkedText capture_block(const Block& block);
  Value make_macro(const MacroDef& macro);
  Value call_macro(const MacroDef& macro, const ScopePtr& scope, const CallArgs& args);
  void bind_macro(const MacroDef& macro, const CallArgs& args);
  void bind_extra(const MacroDef& macro, const CallArgs& args, std::vector<bool>& used);
  void assign(const Target& target, const Value& value);
  void print(const MarkedText& text);

  // Expressions: expressions.cc.
  Value evaluate(const Expr& expr);
  Value evaluate_kind(const Expr& expr);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_filter(const Expr& expr, const Value& input);
  Value evaluate_compare(const Expr& expr);
  CallArgs evaluate_arguments(const Arguments& arguments);
  Value evaluate_filters(const Expr* filters, const Value& input);

  Value lookup(const std::string& name) const;
  void define(const std::string& name, Value value);
  Value loop_attribute(const Value::LoopPtr& loop, std::string_view name);

  const Block& program_;
  Dict variables_;
  Limits limits_;
  const std::tm* now_;
  ScopePtr scope_;
  MarkedText* output_ = nullptr;
  size_t steps_ = 0;
  size_t work_bytes_ = 0;
  int depth_ = 0;
  // Namespaces and scopes of macros may refer to each other in circles: they are emptied at the
  // end.
  std::vector<Value::NamespacePtr> namespaces_;
  std::vector<ScopePtr> macro_scopes_;
};

// Operators of expressions: operators.cc.
Value binary(std::string_view op, const Value& left, const Value& right);
Value negate(const Value& value);
Value slice(const Value& value, const Value& begin, const Value& end, const Value& step);
bool contains(const Value& container, const Value& item);
// The fault that using an undefined value raises.
[[noreturn]] void fail_undefined(const Value& value);

}  // namespace zonda::text::jinja
