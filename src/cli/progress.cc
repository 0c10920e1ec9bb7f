// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <unistd.h>

#include <cstdio>

#include "base/log.h"

namespace zonda::cli {
namespace {

constexpr int kBarWidth = 30;
constexpr auto kRedraw = std::chrono::milliseconds(50);

void write_stderr(const std::string& text) {
  const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  (void)written;  // a closed stderr is no reason to fail
}

}  // namespace

Progress::Progress(std::string_view what)
    : what_(what), terminal_(::isatty(STDERR_FILENO) == 1), next_draw_() {}

Progress::~Progress() {
  if (drawn_) {
    write_stderr("\r\x1b[K");
  }
}

void Progress::update(int64_t done, int64_t total, std::string_view item) {
  if (total <= 0 || log_level() > LogLevel::kInfo) {
    return;
  }
  const int percent = static_cast<int>(done * 100 / total);
  if (!terminal_) {
    if (percent / 10 > last_tenth_) {
      last_tenth_ = percent / 10;
      log_info("{}: {} %", what_, last_tenth_ * 10);
    }
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now < next_draw_ && done < total) {
    return;
  }
  next_draw_ = now + kRedraw;
  drawn_ = true;
  const int filled = percent * kBarWidth / 100;
  write_stderr(fmt::format("\r{} [{}{}] {:3} % {}\x1b[K", what_, std::string(filled, '#'),
                           std::string(kBarWidth - filled, ' '), percent, item));
}

}  // namespace zonda::cli
