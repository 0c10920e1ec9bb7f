// Threads and file descriptors of this process, compared before and after.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

namespace zonda::runtime {

class LeakMeter {
 public:
  LeakMeter() {
    prime();
    threads_ = count("/proc/self/task");
    descriptors_ = count("/proc/self/fd");
  }

  // A joined thread may be listed for a moment longer.
  void expect_unchanged() const {
    for (int i = 0; i < 200 && count("/proc/self/task") != threads_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(count("/proc/self/task"), threads_) << "threads are left";
    EXPECT_EQ(count("/proc/self/fd"), descriptors_) << "file descriptors are left";
  }

 private:
  // The first thread of a process may bring a helper of the sanitizer, which stays.
  static void prime() {
    static const bool done = [] {
      std::thread([] {}).join();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return true;
    }();
    (void)done;
  }
  static long count(const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder),
                         std::filesystem::directory_iterator());
  }
  long threads_ = 0;
  long descriptors_ = 0;
};

}  // namespace zonda::runtime
