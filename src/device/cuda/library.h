// Shared libraries that are loaded on first need, so that a program starts without them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "zonda/error.h"

namespace zonda::device::cuda {

// Move-only; the destructor unloads it.
class SharedLibrary {
 public:
  // The first of `sonames` ("libcublasLt.so.13", ...) that loads, each looked for beside the
  // executable, in its ../lib, where the system's loader looks, and in /usr/local/cuda/lib64.
  // kNotFound names every file that was tried with the loader's reason.
  static Result<SharedLibrary> open(std::span<const std::string_view> sonames);
  SharedLibrary() = default;  // no library: only to be assigned to
  SharedLibrary(SharedLibrary&& other) noexcept;
  SharedLibrary& operator=(SharedLibrary&& other) noexcept;
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;
  ~SharedLibrary();

  // A function of it: symbol<decltype(&cublasLtCreate)>("cublasLtCreate"). kUnsupported names
  // library and symbol if this version of the library lacks it.
  template <typename Function>
  Result<Function> symbol(const char* name) const {
    const Result<void*> address = find(name);
    if (!address) {
      return address.error();
    }
    return reinterpret_cast<Function>(*address);
  }
  // The file that was loaded, as it was asked for.
  const std::string& path() const { return path_; }

 private:
  Result<void*> find(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace zonda::device::cuda
