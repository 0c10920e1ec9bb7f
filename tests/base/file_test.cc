// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "test_support/temp_folder.h"

namespace zonda {
namespace {

namespace fs = std::filesystem;

TEST(File, WriteThenReadAndMapSeeTheSameBytes) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a file";
  ASSERT_TRUE(write_file(path, "hello").ok());
  EXPECT_EQ(read_file(path).value(), "hello");
  const MappedFile mapped = MappedFile::open(path).value();
  EXPECT_EQ(mapped.bytes().size(), 5u);
}

TEST(File, MissingFileAndFolderAreErrorsThatNameThePath) {
  const TempFolder folder;
  EXPECT_EQ(read_file(folder.path() + "/none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::open(folder.path()).error().code, ErrorCode::kInvalidArgument);
}

TEST(StagedFolder, AppearsOnlyAfterCommit) {
  const TempFolder folder;
  const std::string target = folder.path() + "/out";
  {
    StagedFolder staged = StagedFolder::create(target, false).value();
    ASSERT_TRUE(write_file(staged.path() + "/x", "1").ok());
  }
  EXPECT_FALSE(fs::exists(target));
  EXPECT_TRUE(fs::is_empty(folder.path()));
  StagedFolder staged = StagedFolder::create(target, false).value();
  ASSERT_TRUE(write_file(staged.path() + "/x", "1").ok());
  ASSERT_TRUE(staged.commit().ok());
  EXPECT_EQ(read_file(target + "/x").value(), "1");
  EXPECT_EQ(StagedFolder::create(target, false).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(StagedFolder::create(target, true).ok());
}

}  // namespace
}  // namespace zonda
