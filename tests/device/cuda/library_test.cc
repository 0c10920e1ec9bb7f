// Laws of loading libraries: the first name that loads wins, and a failure names what was tried.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/library.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace zonda::device::cuda {
namespace {

TEST(SharedLibrary, TheFirstNameThatLoadsIsUsed) {
  const std::string_view names[] = {"libzonda_absent.so.1", "libm.so.6"};
  Result<SharedLibrary> opened = SharedLibrary::open(names);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const SharedLibrary library = *std::move(opened);
  EXPECT_EQ(library.path(), "libm.so.6");
  const auto cosine = library.symbol<double (*)(double)>("cos");
  ASSERT_TRUE(cosine.ok()) << cosine.error().message;
  EXPECT_EQ((*cosine)(0.0), 1.0);
}

TEST(SharedLibrary, AMissingSymbolIsNamed) {
  const std::string_view names[] = {"libm.so.6"};
  const Result<SharedLibrary> library = SharedLibrary::open(names);
  ASSERT_TRUE(library.ok());
  const auto absent = library->symbol<void (*)()>("zonda_no_such_symbol");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(absent.error().message.find("zonda_no_such_symbol"), std::string::npos);
}

TEST(SharedLibrary, AFailureNamesEveryPlaceThatWasTried) {
  const std::string_view names[] = {"libzonda_a.so.13", "libzonda_b.so"};
  const Result<SharedLibrary> absent = SharedLibrary::open(names);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  const std::string& message = absent.error().message;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const std::string& place : {(beside / "libzonda_a.so.13").string(),
                                   std::string("/usr/local/cuda/lib64/libzonda_a.so.13"),
                                   std::string("/usr/local/cuda/lib64/libzonda_b.so")}) {
    EXPECT_NE(message.find(place), std::string::npos) << place << " in " << message;
  }
}

}  // namespace
}  // namespace zonda::device::cuda
