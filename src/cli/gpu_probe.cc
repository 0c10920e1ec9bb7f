// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_probe.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <array>
#include <memory>

#include "base/file.h"

namespace zonda::cli {
namespace {

// The driver's C interface, as far as it is needed; 0 is success.
using InitFunction = int (*)(unsigned flags);
using VersionFunction = int (*)(int* version);
using CountFunction = int (*)(int* count);
using GetFunction = int (*)(int* device, int ordinal);
using NameFunction = int (*)(char* name, int length, int device);
using AttributeFunction = int (*)(int* value, int attribute, int device);
using MemoryFunction = int (*)(size_t* bytes, int device);

constexpr int kComputeMajor = 75;
constexpr int kComputeMinor = 76;

struct Driver {
  InitFunction init = nullptr;
  VersionFunction version = nullptr;
  CountFunction count = nullptr;
  GetFunction get = nullptr;
  NameFunction name = nullptr;
  AttributeFunction attribute = nullptr;
  MemoryFunction memory = nullptr;

  bool complete() const {
    return init != nullptr && version != nullptr && count != nullptr && get != nullptr &&
           name != nullptr && attribute != nullptr && memory != nullptr;
  }
};

template <typename Function>
void find_symbol(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(library, name));
}

Driver load_symbols(void* library) {
  Driver driver;
  find_symbol(library, "cuInit", driver.init);
  find_symbol(library, "cuDriverGetVersion", driver.version);
  find_symbol(library, "cuDeviceGetCount", driver.count);
  find_symbol(library, "cuDeviceGet", driver.get);
  find_symbol(library, "cuDeviceGetName", driver.name);
  find_symbol(library, "cuDeviceGetAttribute", driver.attribute);
  find_symbol(library, "cuDeviceTotalMem_v2", driver.memory);
  return driver;
}

// The third word after "Module" of the kernel module's own description.
std::string kernel_driver_version() {
  const Result<std::string> text = read_file("/proc/driver/nvidia/version");
  if (!text) {
    return {};
  }
  const size_t begin = text->find_first_of("0123456789", text->find("Module"));
  if (begin == std::string::npos) {
    return {};
  }
  return text->substr(begin, text->find_first_not_of("0123456789.", begin) - begin);
}

Gpu describe(const Driver& driver, int ordinal) {
  Gpu gpu;
  int device = 0;
  std::array<char, 256> name{};
  size_t bytes = 0;
  if (driver.get(&device, ordinal) != 0) {
    return gpu;
  }
  if (driver.name(name.data(), static_cast<int>(name.size() - 1), device) == 0) {
    gpu.name = name.data();
  }
  driver.attribute(&gpu.compute_major, kComputeMajor, device);
  driver.attribute(&gpu.compute_minor, kComputeMinor, device);
  if (driver.memory(&bytes, device) == 0) {
    gpu.memory_bytes = static_cast<int64_t>(bytes);
  }
  return gpu;
}

void ask_driver(const Driver& driver, GpuReport& report) {
  const int status = driver.init(0);
  if (status != 0) {
    report.problem = fmt::format("the NVIDIA driver does not start (error {})", status);
    return;
  }
  int version = 0;
  if (driver.version(&version) == 0) {
    report.cuda_version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  }
  int count = 0;
  if (driver.count(&count) != 0 || count == 0) {
    report.problem = "the NVIDIA driver finds no GPU";
    return;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    report.gpus.push_back(describe(driver, ordinal));
  }
}

}  // namespace

GpuReport find_gpus() {
  GpuReport report;
  report.driver = kernel_driver_version();
  const std::unique_ptr<void, int (*)(void*)> library(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL),
                                                      dlclose);
  if (library == nullptr) {
    report.problem = "no NVIDIA driver: libcuda.so.1 is not installed";
    return report;
  }
  const Driver driver = load_symbols(library.get());
  if (!driver.complete()) {
    report.problem = "libcuda.so.1 lacks functions that every driver since CUDA 4 has";
    return report;
  }
  ask_driver(driver, report);
  return report;
}

}  // namespace zonda::cli
