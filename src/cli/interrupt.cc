// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <fmt/core.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>

#include "cli/verb.h"

namespace zonda::cli {
namespace {

// Signal handlers can reach nothing but a global.
volatile std::sig_atomic_t interrupt_flag = 0;

extern "C" void on_interrupt(int signal) {
  interrupt_flag = 1;
  std::signal(signal, SIG_DFL);
}

sigset_t interrupt_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return interrupt_flag != 0; }

void ignore_closed_pipes() { std::signal(SIGPIPE, SIG_IGN); }

InterruptGuard::InterruptGuard(const std::string& output) {
  const sigset_t signals = interrupt_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  std::string target = std::filesystem::path(output).lexically_normal().string();
  target.resize(target.find_last_not_of('/') + 1);
  const std::string staging = fmt::format("{}.partial-{}", target, ::getpid());
  waiter_ = std::thread([this, signals, staging] {
    constexpr std::timespec kPoll = {0, 50'000'000};
    while (!done_) {
      if (sigtimedwait(&signals, nullptr, &kPoll) > 0) {
        std::error_code ignored;
        std::filesystem::remove_all(staging, ignored);
        std::filesystem::remove_all(staging, ignored);  // what other threads added meanwhile
        ::_exit(kExitInterrupted);
      }
    }
  });
}

InterruptGuard::~InterruptGuard() {
  done_ = true;
  waiter_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace zonda::cli
