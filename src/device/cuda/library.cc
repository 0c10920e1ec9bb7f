// dlopen over a list of names and folders.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/library.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace zonda::device::cuda {
namespace {

// Empty: the system's loader decides.
std::array<std::string, 4> folders() {
  std::error_code fault;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", fault);
  const std::string own = fault ? "." : executable.parent_path().string();
  return {own + "/", own + "/../lib/", "", "/usr/local/cuda/lib64/"};
}

}  // namespace

Result<SharedLibrary> SharedLibrary::open(std::span<const std::string_view> sonames) {
  CHECK(!sonames.empty());
  std::string tried;
  for (const std::string& folder : folders()) {
    for (const std::string_view soname : sonames) {
      SharedLibrary library;
      library.path_ = folder + std::string(soname);
      library.handle_ = dlopen(library.path_.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library.handle_ != nullptr) {
        return library;
      }
      const char* reason = dlerror();
      tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", library.path_,
                           reason != nullptr ? reason : "no reason given");
    }
  }
  return not_found("[library] {} cannot be loaded; tried {}.", sonames.front(), tried);
}

SharedLibrary::SharedLibrary(SharedLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::exchange(other.path_, {})) {}

SharedLibrary& SharedLibrary::operator=(SharedLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(path_, other.path_);
  return *this;
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) {
    (void)dlclose(handle_);
  }
}

Result<void*> SharedLibrary::find(const char* name) const {
  CHECK(handle_ != nullptr);
  void* address = dlsym(handle_, name);
  if (address == nullptr) {
    return unsupported("[library] {} has no symbol {}.", path_, name);
  }
  return address;
}

}  // namespace zonda::device::cuda
