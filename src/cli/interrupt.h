// Ctrl-C, as a question that a loop asks or as a clean end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

namespace zonda::cli {

// From now on the first SIGINT or SIGTERM only sets a flag and breaks a blocking read; the second
// one ends the process.
void catch_interrupts();
bool interrupted();
// Writing to a pipe that nobody reads fails instead of ending the process.
void ignore_closed_pipes();

// While it lives, SIGINT and SIGTERM remove what is half-written and end the process with exit code
// 130. Make it before any other thread, on the main thread.
class InterruptGuard {
 public:
  // `output`: the folder that this process is making, see base's StagedFolder.
  explicit InterruptGuard(const std::string& output);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  sigset_t before_;
  std::atomic<bool> done_ = false;
  std::thread waiter_;
};

}  // namespace zonda::cli
