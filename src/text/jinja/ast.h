// Syntax tree of a template.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/template_fault.h"
#include "text/jinja/value.h"

namespace zonda::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

// Arguments of a call, filter or test.
struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr spread;        // *list
  ExprPtr named_spread;  // **dict
};

struct Expr {
  enum class Kind : uint8_t {
    kConstant,   // constant
    kName,       // name
    kList,       // items
    kTuple,      // items
    kDict,       // items: key, value, key, value, ...
    kAttribute,  // items[0].name
    kItem,       // items[0][items[1]]
    kSlice,      // items[0][items[1]:items[2]:items[3]], each bound may be null
    kCall,       // items[0](arguments)
    kFilter,     // items[0] | name(arguments); items[0] is null in a filter block
    kTest,       // items[0] is name(arguments)
    kNot,
    kNegative,
    kPositive,
    kAnd,
    kOr,
    kBinary,       // items[0] name items[1]: + - * / // % **
    kConcat,       // items joined as strings
    kCompare,      // items[0] operators[0] items[1] operators[1] items[2] ...
    kConditional,  // items[1] if items[0] else items[2], which may be null
  };
  Kind kind;
  Position at;
  std::string name{};
  std::vector<ExprPtr> items{};
  Value constant{};
  Arguments arguments{};
  std::vector<std::string> operators{};  // == != < <= > >= in notin
};

// What `set` and `for` assign to.
struct Target {
  enum class Kind : uint8_t { kName, kAttribute, kTuple };
  Kind kind;
  Position at;
  std::string name{};           // of the variable, or of the namespace
  std::string attribute{};      // kAttribute
  std::vector<Target> parts{};  // kTuple
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct Parameter {
  std::string name;
  ExprPtr fallback;  // null: none
};

// A macro, or the body of a call block.
struct MacroDef {
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
  bool uses_caller = false;  // the body mentions these names: it takes the arguments behind them
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct Stmt {
  enum class Kind : uint8_t {
    kData,       // text
    kPrint,      // value
    kIf,         // value, body, otherwise
    kFor,        // target, value, condition, body, otherwise, recursive
    kSet,        // target, value
    kSetBlock,   // target, value: filters to apply or null; body
    kMacro,      // macro
    kCallBlock,  // value: the call; macro: the caller
    kFilter,     // value: the filters; body
    kWith,       // targets and values; body
    kScope,      // body in a scope of its own (generation)
    kBreak,
    kContinue,
  };
  Kind kind;
  Position at;
  MarkedText text{};
  ExprPtr value{};
  ExprPtr condition{};
  Target target{};
  Block body{};
  Block otherwise{};
  bool recursive = false;
  MacroDef macro{};
  std::vector<std::pair<Target, ExprPtr>> bindings{};
};

}  // namespace zonda::text::jinja
