// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <atomic>

#include "base/error.h"

namespace zonda {
namespace {

// The one process-wide setting of base: the threshold below which lines are dropped.
std::atomic<LogLevel> threshold{LogLevel::kInfo};

constexpr std::string_view kLetters = "VIWE";

}  // namespace

Result<LogLevel> parse_log_level(std::string_view name) {
  if (name == "verbose") {
    return LogLevel::kVerbose;
  }
  if (name == "info") {
    return LogLevel::kInfo;
  }
  if (name == "warning") {
    return LogLevel::kWarning;
  }
  if (name == "error" || name == "internal_error") {
    return LogLevel::kError;
  }
  if (name == "silent") {
    return LogLevel::kSilent;
  }
  return invalid_argument(
      "[log] level \"{}\" is none of verbose, info, warning, error, internal_error, silent.", name);
}

void set_log_level(LogLevel level) { threshold.store(level, std::memory_order_relaxed); }
LogLevel log_level() { return threshold.load(std::memory_order_relaxed); }

void log_line(LogLevel level, std::string_view text) {
  if (level < log_level() || level == LogLevel::kSilent) {
    return;
  }
  const std::string line =
      fmt::format("[zonda] [{}] {}\n", kLetters[static_cast<size_t>(level)], text);
  const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  (void)written;  // a closed stderr is no reason to fail
}

}  // namespace zonda
