// Log lines on stderr: "[zonda] [I] text". Level is process-wide and set once by the command line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <string_view>

#include "zonda/error.h"

namespace zonda {

enum class LogLevel : uint8_t { kVerbose, kInfo, kWarning, kError, kSilent };

// trtllm-build's names: verbose, info, warning, error, internal_error (errors only); plus silent.
Result<LogLevel> parse_log_level(std::string_view name);
void set_log_level(LogLevel level);
LogLevel log_level();
// One line, written with one call; thread-safe.
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log_verbose(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kVerbose) {
    log_line(LogLevel::kVerbose, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kInfo) {
    log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kWarning) {
    log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace zonda
