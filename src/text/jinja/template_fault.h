// A failure of a template, on its way to the Error that ChatTemplate returns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <utility>

#include "zonda/error.h"

namespace zonda::text::jinja {

struct Position {
  uint32_t line = 0;  // from 1; 0: not known
  uint32_t column = 0;
};

struct TemplateFault {
  ErrorCode code;
  std::string message;
  Position at{};  // filled in by the statement or expression that failed
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateFault{ErrorCode::kInvalidArgument,
                      fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
[[noreturn]] void fail_at(Position at, fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateFault{ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...),
                      at};
}
template <typename... Args>
[[noreturn]] void fail_unsupported(Position at, fmt::format_string<Args...> format,
                                   Args&&... args) {
  throw TemplateFault{ErrorCode::kUnsupported, fmt::format(format, std::forward<Args>(args)...),
                      at};
}
template <typename... Args>
[[noreturn]] void fail_limit(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateFault{ErrorCode::kCapacity, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace zonda::text::jinja
