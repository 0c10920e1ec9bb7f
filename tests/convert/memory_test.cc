// Conversion needs memory for a few rows, whatever the size of the model and of its tensors.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "convert/tiny_model.h"
#include "test_support/temp_folder.h"
#include "zonda/convert.h"

namespace zonda::convert {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A line of /proc/self/status in bytes: "VmData", "RssFile"; 0 if there is none.
int64_t process_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with(field + ":")) {
      return std::stoll(line.substr(field.size() + 1)) * 1024;
    }
  }
  return 0;
}

// 54 MB; the six large matrices have 8 MiB each.
void write_large_folder(const std::string& folder) {
  write_hf_folder(make_tiny_model({.hidden = 512, .ffn = 4096}), folder);
}

#ifndef __SANITIZE_ADDRESS__  // its shadow memory counts as data
TEST(ConvertMemory, DataIsSmallerThanOneTensor) {
  const TempFolder temp;
  write_large_folder(temp.path() + "/in");
  ASSERT_GT(process_bytes("VmData"), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto limit = static_cast<rlim_t>(process_bytes("VmData") + 7 * kMiB);
    const rlimit data{limit, limit};
    if (::setrlimit(RLIMIT_DATA, &data) != 0) {
      ::_exit(2);
    }
    const Result<ConvertReport> done = convert_checkpoint(
        {.model_dir = temp.path() + "/in", .output_dir = temp.path() + "/out", .workers = 1});
    ::_exit(done.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

TEST(ConvertMemory, PagesOfTheSourceAreGivenBackAfterUse) {
  const TempFolder temp;
  write_large_folder(temp.path() + "/in");
  const int64_t before = process_bytes("RssFile");
  ASSERT_GT(before, 0);
  int64_t most = 0;
  const auto watch = [&](const ConvertProgress&) {
    most = std::max(most, process_bytes("RssFile") - before);
  };
  ASSERT_TRUE(convert_checkpoint({.model_dir = temp.path() + "/in",
                                  .output_dir = temp.path() + "/out",
                                  .workers = 1,
                                  .progress = watch})
                  .ok());
  EXPECT_LT(most, 16 * kMiB) << "of a source of 54 MB";
}

}  // namespace
}  // namespace zonda::convert
