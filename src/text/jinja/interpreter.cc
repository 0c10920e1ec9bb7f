// Runs a template: statements and scopes.
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/natives.h"
#include "text/jinja/template_fault.h"

namespace zonda::text::jinja {

class Interpreter::Level {
 public:
  explicit Level(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter.depth_ >= kMaxRunDepth) {
      fail_limit("calls and expressions are nested more than {} levels deep", kMaxRunDepth);
    }
    ++interpreter.depth_;
  }
  ~Level() { --interpreter_.depth_; }

 private:
  Interpreter& interpreter_;
};

class Interpreter::ScopeChange {
 public:
  ScopeChange(Interpreter& interpreter, ScopePtr scope)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.scope_, std::move(scope))) {}
  // A new scope inside the current one.
  explicit ScopeChange(Interpreter& interpreter)
      : ScopeChange(interpreter, std::make_shared<Scope>(Scope{interpreter.scope_})) {}
  ~ScopeChange() { interpreter_.scope_ = std::move(outer_); }

 private:
  Interpreter& interpreter_;
  ScopePtr outer_;
};

class Interpreter::Capture {
 public:
  Capture(Interpreter& interpreter, MarkedText& buffer)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.output_, &buffer)) {}
  ~Capture() { interpreter_.output_ = outer_; }

 private:
  Interpreter& interpreter_;
  MarkedText* outer_;
};

Interpreter::Interpreter(const Block& program, Dict variables, Limits limits, const std::tm* now)
    : program_(program), variables_(std::move(variables)), limits_(limits), now_(now) {}

Interpreter::~Interpreter() {
  for (const auto& space : namespaces_) {
    space->attributes.clear();
  }
  for (const ScopePtr& scope : macro_scopes_) {
    scope->variables.clear();
    scope->parent.reset();
  }
}

MarkedText Interpreter::run() {
  scope_ = std::make_shared<Scope>();
  MarkedText output;
  const Capture capture(*this, output);
  run_block(program_);
  return output;
}

void Interpreter::count_step() {
  if (++steps_ > limits_.max_steps) {
    fail_limit("the template runs more than {} steps", limits_.max_steps);
  }
}

void Interpreter::charge(const Value& value) {
  if (const MarkedText* text = value.as_text()) {
    work_bytes_ += text->size();
  } else if (const List* list = value.as_list()) {
    work_bytes_ += list->items.size() * sizeof(Value);
  } else if (const Dict* dict = value.as_dict()) {
    work_bytes_ += dict->size() * 4 * sizeof(Value);
  }
  if (work_bytes_ > limits_.max_work_bytes) {
    fail_limit("the template makes more than {} bytes of values", limits_.max_work_bytes);
  }
}

void Interpreter::print(const MarkedText& text) {
  if (output_->size() + text.size() > limits_.max_output_bytes) {
    fail_limit("the template writes more than {} bytes", limits_.max_output_bytes);
  }
  output_->append(text);
}

Interpreter::Flow Interpreter::run_block(const Block& block) {
  for (const auto& stmt : block) {
    try {
      const Level level(*this);
      count_step();
      const Flow flow = run_statement(*stmt);
      if (flow != Flow::kNormal) {
        return flow;
      }
    } catch (TemplateFault& fault) {
      if (fault.at.line == 0) {
        fault.at = stmt->at;
      }
      throw;
    }
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_statement(const Stmt& stmt) {
  switch (stmt.kind) {
    case Stmt::Kind::kData:
      print(stmt.text);
      break;
    case Stmt::Kind::kPrint:
      print(to_text(evaluate(*stmt.value)));
      break;
    case Stmt::Kind::kIf:
      return run_block(truthy(evaluate(*stmt.value)) ? stmt.body : stmt.otherwise);
    case Stmt::Kind::kFor:
      return run_for(stmt);
    case Stmt::Kind::kSet:
      assign(stmt.target, evaluate(*stmt.value));
      break;
    case Stmt::Kind::kSetBlock: {
      const Value text = Value::text(capture_block(stmt.body));
      assign(stmt.target, evaluate_filters(stmt.value.get(), text));
      break;
    }
    case Stmt::Kind::kMacro:
      define(stmt.macro.name, make_macro(stmt.macro));
      break;
    case Stmt::Kind::kCallBlock:
      run_call_block(stmt);
      break;
    case Stmt::Kind::kFilter: {
      const Value text = Value::text(capture_block(stmt.body));
      print(to_text(evaluate_filters(stmt.value.get(), text)));
      break;
    }
    case Stmt::Kind::kWith:
      run_with(stmt);
      break;
    case Stmt::Kind::kScope:
      print(capture_block(stmt.body));
      break;
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

// The output of a block that runs in a scope of its own.
MarkedText Interpreter::capture_block(const Block& block) {
  MarkedText text;
  const Capture capture(*this, text);
  const ScopeChange scope(*this);
  run_block(block);
  return text;
}

Interpreter::Flow Interpreter::run_for(const Stmt& stmt) {
  run_loop(stmt, evaluate(*stmt.value), 1);
  return Flow::kNormal;
}

// The items that pass the loop's condition, which sees the loop's own variables.
std::vector<Value> Interpreter::loop_items(const Stmt& stmt, const Value& iterable) {
  std::vector<Value> items = iterate(iterable);
  if (stmt.condition == nullptr) {
    return items;
  }
  std::vector<Value> kept;
  for (Value& item : items) {
    const ScopeChange scope(*this);
    assign(stmt.target, item);
    if (truthy(evaluate(*stmt.condition))) {
      kept.push_back(std::move(item));
    }
  }
  return kept;
}

Interpreter::Flow Interpreter::run_loop(const Stmt& stmt, const Value& iterable, size_t depth) {
  const auto loop = std::make_shared<Loop>();
  loop->items = loop_items(stmt, iterable);
  loop->depth = depth;
  loop->nesting = nesting(iterable) + 1;
  if (stmt.recursive) {
    loop->call = [&stmt, depth](Interpreter& self, const Value& inner) {
      const Level level(self);
      MarkedText text;
      const Capture capture(self, text);
      self.run_loop(stmt, inner, depth + 1);
      return Value::text(std::move(text));
    };
  }
  if (loop->items.empty()) {
    const ScopeChange scope(*this);
    return run_block(stmt.otherwise);
  }
  return run_iterations(stmt, loop);
}

Interpreter::Flow Interpreter::run_iterations(const Stmt& stmt, const Value::LoopPtr& loop) {
  for (loop->index = 0; loop->index < loop->items.size(); ++loop->index) {
    const ScopeChange scope(*this);
    count_step();
    define("loop", Value(loop));
    assign(stmt.target, loop->items[loop->index]);
    if (run_block(stmt.body) == Flow::kBreak) {
      break;
    }
  }
  return Flow::kNormal;
}

void Interpreter::run_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (const auto& [target, value] : stmt.bindings) {
    values.push_back(evaluate(*value));
  }
  const ScopeChange scope(*this);
  for (size_t i = 0; i < values.size(); ++i) {
    assign(stmt.bindings[i].first, values[i]);
  }
  run_block(stmt.body);
}

void Interpreter::run_call_block(const Stmt& stmt) {
  const Value callee = evaluate(*stmt.value->items[0]);
  CallArgs args = evaluate_arguments(stmt.value->arguments);
  args.named.emplace_back("caller", make_macro(stmt.macro));
  print(to_text(call(callee, args)));
}

Value Interpreter::make_macro(const MacroDef& macro) {
  if (macro_scopes_.empty() || macro_scopes_.back() != scope_) {
    macro_scopes_.push_back(scope_);
  }
  return Value::callable(macro.name, nullptr,
                         [&macro, scope = scope_](Interpreter& self, const CallArgs& args) {
                           return self.call_macro(macro, scope, args);
                         });
}

Value Interpreter::call_macro(const MacroDef& macro, const ScopePtr& scope, const CallArgs& args) {
  MarkedText text;
  const Capture capture(*this, text);
  const ScopeChange change(*this, std::make_shared<Scope>(Scope{scope}));
  bind_macro(macro, args);
  run_block(macro.body);
  return Value::text(std::move(text));
}

void Interpreter::bind_macro(const MacroDef& macro, const CallArgs& args) {
  std::vector<bool> used(args.named.size());
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    const Value* value = i < args.positional.size() ? &args.positional[i] : nullptr;
    for (size_t k = 0; k < args.named.size(); ++k) {
      if (args.named[k].first != parameter.name) {
        continue;
      }
      if (value != nullptr) {
        fail("macro \"{}\" got two values for \"{}\"", macro.name, parameter.name);
      }
      value = &args.named[k].second;
      used[k] = true;
    }
    if (value != nullptr) {
      define(parameter.name, *value);
    } else if (parameter.fallback != nullptr) {
      define(parameter.name, evaluate(*parameter.fallback));
    } else {
      define(parameter.name,
             Value::undefined(fmt::format("parameter \"{}\" of macro \"{}\" was not given",
                                          parameter.name, macro.name)));
    }
  }
  bind_extra(macro, args, used);
}

// Arguments beyond the parameters.
void Interpreter::bind_extra(const MacroDef& macro, const CallArgs& args, std::vector<bool>& used) {
  const size_t count = macro.parameters.size();
  if (args.positional.size() > count && !macro.uses_varargs) {
    fail("macro \"{}\" takes at most {} arguments, got {}", macro.name, count,
         args.positional.size());
  }
  Value caller = Value::undefined("the macro was not called by a call block");
  Dict rest;
  for (size_t k = 0; k < args.named.size(); ++k) {
    if (used[k]) {
      continue;
    }
    if (args.named[k].first == "caller" && macro.uses_caller) {
      caller = args.named[k].second;
    } else if (macro.uses_kwargs) {
      rest.set(Value::text(args.named[k].first, true), args.named[k].second);
    } else {
      fail("macro \"{}\" takes no argument \"{}\"", macro.name, args.named[k].first);
    }
  }
  if (macro.uses_caller) {
    define("caller", std::move(caller));
  }
  if (macro.uses_varargs) {
    const size_t from = std::min(count, args.positional.size());
    define("varargs", Value::tuple({args.positional.begin() + static_cast<ptrdiff_t>(from),
                                    args.positional.end()}));
  }
  if (macro.uses_kwargs) {
    define("kwargs", Value::dict(std::move(rest)));
  }
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.kind == Target::Kind::kName) {
    define(target.name, value);
  } else if (target.kind == Target::Kind::kAttribute) {
    const Value object = lookup(target.name);
    const auto* space = object.get_if<Value::NamespacePtr>();
    if (space == nullptr) {
      fail_at(target.at, "\"{}\" is not a namespace: its attributes cannot be set", target.name);
    }
    auto& attributes = (*space)->attributes;
    const auto known = std::find_if(attributes.begin(), attributes.end(), [&](const auto& entry) {
      return entry.first == target.attribute;
    });
    if (known != attributes.end()) {
      known->second = value;
    } else {
      attributes.emplace_back(target.attribute, value);
    }
  } else {
    const std::vector<Value> items = iterate(value);
    if (items.size() != target.parts.size()) {
      fail_at(target.at, "{} values cannot be assigned to {} names", items.size(),
              target.parts.size());
    }
    for (size_t i = 0; i < items.size(); ++i) {
      assign(target.parts[i], items[i]);
    }
  }
}

void Interpreter::define(const std::string& name, Value value) {
  auto& variables = scope_->variables;
  const auto known = std::find_if(variables.begin(), variables.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (known != variables.end()) {
    known->second = std::move(value);
  } else {
    variables.emplace_back(name, std::move(value));
  }
}

Value Interpreter::lookup(const std::string& name) const {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [known, value] : scope->variables) {
      if (known == name) {
        return value;
      }
    }
  }
  if (const Value* value = variables_.find(name)) {
    return *value;
  }
  if (const Native* native = find_global(name)) {
    return Value::callable(name, nullptr, [native](Interpreter& self, const CallArgs& args) {
      return native->function(self, Value(), Bound(native->name, native->parameters, args));
    });
  }
  return Value::undefined(fmt::format("\"{}\" is not defined", name));
}

}  // namespace zonda::text::jinja
