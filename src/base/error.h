// Constructors of Error with fmt's format strings, and CHECK for faults that only a programmer can
// cause. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include "zonda/error.h"

namespace zonda {

template <typename... Args>
Error make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Error invalid_argument(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}
template <typename... Args>
Error not_found(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kNotFound, format, std::forward<Args>(args)...);
}
template <typename... Args>
Error unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kUnsupported, format, std::forward<Args>(args)...);
}
template <typename... Args>
Error corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kCorrupt, format, std::forward<Args>(args)...);
}
template <typename... Args>
Error over_capacity(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kCapacity, format, std::forward<Args>(args)...);
}
template <typename... Args>
Error io_error(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kIo, format, std::forward<Args>(args)...);
}
template <typename... Args>
Error internal_error(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInternal, format, std::forward<Args>(args)...);
}

// Prints file, line and the failed condition to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace zonda

// For invariants of our own code, in every build type; never for what a user or a file can cause.
#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) [[unlikely]] {                         \
      ::zonda::check_failed(__FILE__, __LINE__, #condition); \
    }                                                        \
  } while (false)
