// What small CUDA benchmarks share: checks, random data, and times from replayed graphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace zonda::bench {

inline constexpr double kReadLimit = 4.50e12;  // bytes a second, the best long read of an H200

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
  }
}

template <typename T>
T* device_array(int64_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<size_t>(count) * sizeof(T)), "cudaMalloc");
  check(cudaMemset(memory, 0, static_cast<size_t>(count) * sizeof(T)), "cudaMemset");
  return static_cast<T*>(memory);
}

template <typename T>
T* device_copy(const std::vector<T>& values) {
  T* memory = device_array<T>(static_cast<int64_t>(values.size()));
  check(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  return memory;
}

// Normal values (Box and Muller) that depend on seed and index alone.
template <typename T>
__global__ void fill_normal(T* to, int64_t count, float spread, uint64_t seed) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    uint64_t x = (static_cast<uint64_t>(i) + seed) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    const float u = (static_cast<float>(static_cast<uint32_t>(x) >> 8) + 0.5f) * 0x1p-24f;
    const float v = static_cast<float>(x >> 40) * 0x1p-24f;
    to[i] = T(spread * sqrtf(-2.0f * logf(u)) * cospif(2.0f * v));
  }
}

template <typename T>
T* normal_array(int64_t count, float spread, uint64_t seed) {
  T* memory = device_array<T>(count);
  fill_normal<<<2048, 256>>>(memory, count, spread, seed);
  check(cudaDeviceSynchronize(), "fill");
  return memory;
}

// Median microseconds of one of `calls` calls, issue(0) to issue(calls - 1), replayed as one graph.
inline double time_calls(cudaStream_t stream, int calls,
                         const std::function<cudaError_t(int)>& issue) {
  check(issue(0), "launch");
  check(cudaStreamSynchronize(stream), "first run");
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < calls; ++i) {
    check(issue(i), "captured launch");
  }
  check(cudaStreamEndCapture(stream, &graph), "end of capture");
  check(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < 11; ++i) {
    check(cudaEventRecord(begin, stream), "record");
    check(cudaGraphLaunch(executable, stream), "replay");
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "replay");
    float ms = 0.0f;
    check(cudaEventElapsedTime(&ms, begin, end), "time");
    if (i > 0) {
      times.push_back(ms * 1e3f / static_cast<float>(calls));
    }
  }
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  check(cudaGraphExecDestroy(executable), "graph");
  check(cudaGraphDestroy(graph), "graph");
  std::nth_element(times.begin(), times.begin() + 5, times.end());
  return times[5];
}

// `bytes` are those that the call must at least move.
inline void print_row(const char* name, int64_t rows, double us, double bytes) {
  std::printf("%-34s %6lld %9.2f us %8.0f GB/s %5.1f %%\n", name, static_cast<long long>(rows), us,
              bytes / us * 1e-3, 100.0 * bytes / us * 1e6 / kReadLimit);
}

}  // namespace zonda::bench
