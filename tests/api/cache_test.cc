// Entries of the cache are made once and appear complete or not at all.
// SPDX-License-Identifier: Apache-2.0
#include "api/cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "test_support/temp_folder.h"

namespace zonda::api {
namespace {

namespace fs = std::filesystem;

// Makes the entry in a staged folder, slowly enough for others to arrive meanwhile.
Result<void> make_slowly(const std::string& folder, const std::string& content) {
  Result<StagedFolder> staged = StagedFolder::create(folder, false);
  if (!staged) {
    return staged.error();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const Result<void> written = write_file(staged->path() + "/file", content);
  return written ? staged->commit() : written;
}

TEST(Cache, AnEntryIsMadeOnceByManyThreads) {
  const TempFolder folder;
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const Result<std::string> entry =
          cached_folder(folder.path() + "/cache", "entry", [&](const std::string& path) {
            ++made;
            return make_slowly(path, "x");
          });
      ASSERT_TRUE(entry.ok());
      EXPECT_EQ(*read_file(*entry + "/file"), "x");
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(made, 1);
}

TEST(Cache, AnEntryIsMadeOnceByTwoProcesses) {
  const TempFolder folder;
  const auto make_as = [&](const std::string& who) {
    return cached_folder(folder.path(), "entry",
                         [&](const std::string& path) { return make_slowly(path, who); });
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    _exit(make_as("child").ok() ? 0 : 1);
  }
  const Result<std::string> entry = make_as("parent");
  ASSERT_TRUE(entry.ok());
  const std::string content = *read_file(*entry + "/file");
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*read_file(*entry + "/file"), content) << "the second one made it again";
}

TEST(Cache, AFailureLeavesNoEntryAndIsTriedAgain) {
  const TempFolder folder;
  const Result<std::string> failed = cached_folder(
      folder.path(), "entry",
      [](const std::string&) -> Result<void> { return corrupt("[test] bad model."); });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message, "[test] bad model.");
  EXPECT_FALSE(fs::exists(folder.path() + "/entry"));
  EXPECT_TRUE(cached_folder(folder.path(), "entry", [](const std::string& path) {
                return make_slowly(path, "x");
              }).ok());
}

TEST(Cache, WhatAKilledProcessLeftIsRemoved) {
  const TempFolder folder;
  fs::create_directories(folder.path() + "/entry.partial-1");
  fs::create_directories(folder.path() + "/other.partial-1");
  ASSERT_TRUE(cached_folder(folder.path(), "entry", [](const std::string& path) {
                return make_slowly(path, "x");
              }).ok());
  EXPECT_FALSE(fs::exists(folder.path() + "/entry.partial-1"));
  EXPECT_TRUE(fs::exists(folder.path() + "/other.partial-1"));
}

}  // namespace
}  // namespace zonda::api
