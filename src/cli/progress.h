// A progress bar on a terminal, a line every tenth otherwise; on stderr.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace zonda::cli {

class Progress {
 public:
  // `what` begins each line: "convert".
  explicit Progress(std::string_view what);
  ~Progress();  // ends the bar's line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int64_t done, int64_t total, std::string_view item);

 private:
  std::string what_;
  bool terminal_;
  bool drawn_ = false;
  int last_tenth_ = 0;
  std::chrono::steady_clock::time_point next_draw_;
};

}  // namespace zonda::cli
