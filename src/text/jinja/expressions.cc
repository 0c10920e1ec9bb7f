// Runs a template: expressions.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/natives.h"
#include "text/jinja/python_text.h"
#include "text/jinja/template_fault.h"

namespace zonda::text::jinja {
namespace {

bool holds(const std::string& op, const Value& left, const Value& right) {
  if (op == "==") {
    return equals(left, right);
  }
  if (op == "!=") {
    return !equals(left, right);
  }
  if (op == "in") {
    return contains(right, left);
  }
  if (op == "notin") {
    return !contains(right, left);
  }
  if (left.is_undefined() || right.is_undefined()) {
    fail_undefined(left.is_undefined() ? left : right);
  }
  const int order = compare(left, right);
  return op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
}

Value concat(const std::vector<Value>& parts) {
  MarkedText out;
  for (const Value& part : parts) {
    out.append(to_text(part));
  }
  return Value::text(std::move(out));
}

}  // namespace

Value Interpreter::evaluate(const Expr& expr) {
  if (depth_ >= kMaxRunDepth) {
    fail_limit("calls and expressions are nested more than {} levels deep", kMaxRunDepth);
  }
  ++depth_;
  count_step();
  try {
    Value value = evaluate_kind(expr);
    --depth_;
    return value;
  } catch (TemplateFault& fault) {
    --depth_;
    if (fault.at.line == 0) {
      fault.at = expr.at;
    }
    throw;
  }
}

Value Interpreter::evaluate_kind(const Expr& expr) {
  const auto each = [&] {
    std::vector<Value> values;
    values.reserve(expr.items.size());
    for (const ExprPtr& item : expr.items) {
      values.push_back(evaluate(*item));
    }
    return values;
  };
  switch (expr.kind) {
    case Expr::Kind::kConstant:
      return expr.constant;
    case Expr::Kind::kName:
      return lookup(expr.name);
    case Expr::Kind::kList:
    case Expr::Kind::kTuple:
      return Value::list(each(),
                         expr.kind == Expr::Kind::kTuple ? List::Kind::kTuple : List::Kind::kList);
    case Expr::Kind::kDict:
      return evaluate_dict(expr);
    case Expr::Kind::kAttribute:
      return attribute(evaluate(*expr.items[0]), expr.name);
    case Expr::Kind::kItem: {
      const Value value = evaluate(*expr.items[0]);
      return item(value, evaluate(*expr.items[1]));
    }
    case Expr::Kind::kSlice:
      return evaluate_slice(expr);
    case Expr::Kind::kCall: {
      const Value callee = evaluate(*expr.items[0]);
      return call(callee, evaluate_arguments(expr.arguments));
    }
    case Expr::Kind::kFilter:
      return evaluate_filter(expr, evaluate(*expr.items[0]));
    case Expr::Kind::kTest: {
      const Value value = evaluate(*expr.items[0]);
      return Value(test(expr.name, value, evaluate_arguments(expr.arguments)));
    }
    case Expr::Kind::kNot:
      return Value(!truthy(evaluate(*expr.items[0])));
    case Expr::Kind::kNegative:
      return negate(evaluate(*expr.items[0]));
    case Expr::Kind::kPositive:
      return binary("+", Value(int64_t{0}), evaluate(*expr.items[0]));
    case Expr::Kind::kAnd:
    case Expr::Kind::kOr: {
      Value left = evaluate(*expr.items[0]);
      return truthy(left) == (expr.kind == Expr::Kind::kAnd) ? evaluate(*expr.items[1]) : left;
    }
    case Expr::Kind::kBinary: {
      const Value left = evaluate(*expr.items[0]);
      Value result = binary(expr.name, left, evaluate(*expr.items[1]));
      charge(result);
      return result;
    }
    case Expr::Kind::kConcat: {
      Value result = concat(each());
      charge(result);
      return result;
    }
    case Expr::Kind::kCompare:
      return evaluate_compare(expr);
    case Expr::Kind::kConditional:
      if (truthy(evaluate(*expr.items[0]))) {
        return evaluate(*expr.items[1]);
      }
      return expr.items[2] != nullptr
                 ? evaluate(*expr.items[2])
                 : Value::undefined("the condition is false and there is no \"else\"");
  }
  fail("unknown expression");
}

Value Interpreter::evaluate_dict(const Expr& expr) {
  Dict dict;
  for (size_t i = 0; i < expr.items.size(); i += 2) {
    const Value key = evaluate(*expr.items[i]);
    dict.set(key, evaluate(*expr.items[i + 1]));
  }
  return Value::dict(std::move(dict));
}

Value Interpreter::evaluate_slice(const Expr& expr) {
  const Value value = evaluate(*expr.items[0]);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    bounds[i] = expr.items[i + 1] == nullptr ? Value(None{}) : evaluate(*expr.items[i + 1]);
  }
  Value result = slice(value, bounds[0], bounds[1], bounds[2]);
  charge(result);
  return result;
}

// Runs the filters of a set or filter block, innermost first; null: none.
Value Interpreter::evaluate_filters(const Expr* filters, const Value& input) {
  if (filters == nullptr) {
    return input;
  }
  return evaluate_filter(*filters, evaluate_filters(filters->items[0].get(), input));
}

Value Interpreter::evaluate_filter(const Expr& expr, const Value& input) {
  try {
    return filter(expr.name, input, evaluate_arguments(expr.arguments));
  } catch (TemplateFault& fault) {
    if (fault.at.line == 0) {
      fault.at = expr.at;
    }
    throw;
  }
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.items[0]);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = evaluate(*expr.items[i + 1]);
    if (!holds(expr.operators[i], left, right)) {
      return Value(false);
    }
    left = std::move(right);
  }
  return Value(true);
}

CallArgs Interpreter::evaluate_arguments(const Arguments& arguments) {
  CallArgs args;
  for (const ExprPtr& argument : arguments.positional) {
    args.positional.push_back(evaluate(*argument));
  }
  if (arguments.spread != nullptr) {
    for (Value& value : iterate(evaluate(*arguments.spread))) {
      args.positional.push_back(std::move(value));
    }
  }
  for (const auto& [name, argument] : arguments.named) {
    args.named.emplace_back(name, evaluate(*argument));
  }
  if (arguments.named_spread != nullptr) {
    const Value spread = evaluate(*arguments.named_spread);
    if (spread.as_dict() == nullptr) {
      fail("\"**\" needs a dict, not {}", type_name(spread));
    }
    for (const auto& [key, value] : spread.as_dict()->entries()) {
      args.named.emplace_back(to_text(key).bytes(), value);
    }
  }
  return args;
}

Value Interpreter::call(const Value& callee, const CallArgs& args) {
  count_step();
  Value result;
  if (const auto* callable = callee.get_if<Value::CallablePtr>()) {
    result = (*callable)->call(*this, args);
  } else if (const auto* loop = callee.get_if<Value::LoopPtr>(); loop != nullptr && (*loop)->call) {
    if (args.positional.size() != 1 || !args.named.empty()) {
      fail("loop() takes one argument");
    }
    result = (*loop)->call(*this, args.positional[0]);
  } else if (callee.is_undefined()) {
    fail_undefined(callee);
  } else {
    fail("a value of type {} cannot be called", type_name(callee));
  }
  charge(result);
  return result;
}

Value Interpreter::filter(std::string_view name, const Value& value, const CallArgs& args) {
  const Native* native = find_filter(name);
  if (native == nullptr) {
    fail("there is no filter \"{}\"", name);
  }
  count_step();
  Value result = native->function(*this, value, Bound(native->name, native->parameters, args));
  charge(result);
  return result;
}

bool Interpreter::test(std::string_view name, const Value& value, const CallArgs& args) {
  const Native* native = find_test(name);
  if (native == nullptr) {
    fail("there is no test \"{}\"", name);
  }
  count_step();
  return truthy(native->function(*this, value, Bound(native->name, native->parameters, args)));
}

}  // namespace zonda::text::jinja
