// Linears of Llama-3.1-8B with random weights, and the time of a replayed graph, for benchmarks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "device/cuda/device_memory.h"
#include "device/cuda/stream.h"
#include "kernels/gemm/cuda/linear.h"

namespace zonda::bench {

using device::cuda::DeviceBuffer;
using device::cuda::LaunchSite;
using kernels::Epilogue;
using kernels::PackedType;
using kernels::RowOrder;
namespace cuda = kernels::cuda;

inline constexpr double kReadLimit = 4.50e12;    // bytes/s, measured on an H200
inline constexpr double kProductLimit = 790e12;  // bf16 FLOP/s, measured
inline constexpr int64_t kRotateBytes = 256
                                        << 20;  // of distinct weights: more than the L2 cache holds
inline constexpr int kLayers = 32;

inline void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    std::printf("%s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
  }
}

inline DeviceBuffer allocate(int64_t bytes) {
  zonda::Result<DeviceBuffer> buffer = DeviceBuffer::allocate(static_cast<size_t>(bytes));
  if (!buffer) {
    std::printf("%s\n", buffer.error().message.c_str());
    std::exit(1);
  }
  return *std::move(buffer);
}

struct Matrix {
  const char* name;
  int64_t rows, cols;
  Epilogue epilogue = Epilogue::kStore;
  bool norm = false;  // follows a norm: tactics that fuse it are timed with and without
  bool float32_output = false;
};

inline constexpr Matrix kMatrices[] = {
    {"qkv", 6144, 4096, Epilogue::kStore, true},
    {"o", 4096, 4096, Epilogue::kAddResidual},
    {"gate_up", 28672, 4096, Epilogue::kGatedSilu, true},
    {"down", 4096, 14336, Epilogue::kAddResidual},
    {"head", 128256, 4096, Epilogue::kStore, true, true},
};
inline constexpr int kHead = 4;

struct Format {
  const char* name;
  WeightFormat format;
  int32_t group_size = 0;
};
inline constexpr Format kFormats[] = {{"bf16", WeightFormat::kBFloat16},
                                      {"fp16", WeightFormat::kFloat16},
                                      {"fp8", WeightFormat::kFloat8E4M3},
                                      {"int8", WeightFormat::kInt8},
                                      {"int4", WeightFormat::kInt4, 128}};

inline PackedType packed_of(const Format& format, const Matrix& matrix) {
  PackedType packed;
  packed.type = {format.format, matrix.rows, matrix.cols, format.group_size, false};
  packed.order =
      matrix.epilogue == Epilogue::kGatedSilu ? RowOrder::kInterleaved : RowOrder::kStacked;
  return packed;
}

inline DType activation_of(const Format& format) {
  return format.format == WeightFormat::kFloat16 ? DType::kFloat16 : DType::kBFloat16;
}

// Random weights, copies of them that the L2 cache cannot hold, tokens and outputs of one matrix.
class Case {
 public:
  Case(const Format& format, const Matrix& matrix, int64_t max_tokens, int copies)
      : format_(format), matrix_(matrix), packed_(packed_of(format, matrix)) {
    for (int i = 0; i < copies; ++i) {
      weights_.push_back(allocate(cuda::packed_bytes(packed_)));
      must(cuda::random_weights(packed_, 100 + i, 0.02f, weights_.back().data(), nullptr),
           "weights");
    }
    Format plain = format;
    plain.format =
        activation_of(format) == DType::kFloat16 ? WeightFormat::kFloat16 : WeightFormat::kBFloat16;
    PackedType tokens = packed_of(plain, {"x", max_tokens, matrix.cols});
    tokens.type.group_size = 0;
    x_ = allocate(cuda::packed_bytes(tokens));
    must(cuda::random_weights(tokens, 1, 1.0f, x_.data(), nullptr), "tokens");
    y_ = allocate(max_tokens * matrix.rows * 4);
    must(cudaMemset(y_.data(), 0, y_.size()), "memset");
    norm_ = allocate(matrix.cols * 4);
    must(cudaMemset(norm_.data(), 0x3f, norm_.size()), "memset");  // 0.747 each
    workspace_ = allocate(cuda::linear_workspace_bytes(packed_, max_tokens));
    must(cudaDeviceSynchronize(), "inputs");
  }

  cuda::LinearParams params(int64_t tokens, bool norm, int copy) const {
    cuda::LinearParams params;
    params.x = x_.data();
    params.weights = weights_[static_cast<size_t>(copy) % weights_.size()].data();
    params.y = const_cast<std::byte*>(y_.data());
    params.residual = y_.data();
    params.workspace = const_cast<std::byte*>(workspace_.data());
    params.norm_weight = norm ? norm_.as<float>() : nullptr;
    params.norm_eps = 1e-5f;
    params.num_tokens = tokens;
    params.x_stride = matrix_.cols;
    params.y_stride = matrix_.epilogue == Epilogue::kGatedSilu ? matrix_.rows / 2 : matrix_.rows;
    params.packed = packed_;
    params.epilogue = matrix_.epilogue;
    params.activation = activation_of(format_);
    params.float32_output = matrix_.float32_output;
    return params;
  }
  const PackedType& packed() const { return packed_; }
  int copies() const { return static_cast<int>(weights_.size()); }

 private:
  Format format_;
  Matrix matrix_;
  PackedType packed_;
  std::vector<DeviceBuffer> weights_;
  DeviceBuffer x_, y_, norm_, workspace_;
};

// Microseconds of one replay of what `issue` puts on the stream: the median of five batches.
inline double time_graph(cudaStream_t stream, const std::function<void()>& issue) {
  issue();  // loads kernels and libraries
  must(cudaStreamSynchronize(stream), "first run");
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  issue();
  must(cudaStreamEndCapture(stream, &graph), "capture");
  must(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  const auto replay = [&](int count) {
    must(cudaEventRecord(begin, stream), "event");
    for (int i = 0; i < count; ++i) {
      must(cudaGraphLaunch(executable, stream), "replay");
    }
    must(cudaEventRecord(end, stream), "event");
    must(cudaEventSynchronize(end), "replay");
    float ms = 0.0f;
    must(cudaEventElapsedTime(&ms, begin, end), "event");
    return ms * 1e3 / count;
  };
  const double once = replay(1);
  const int count = std::clamp(static_cast<int>(4e3 / once), 1, 20);
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    times.push_back(replay(count));
  }
  std::sort(times.begin(), times.end());
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  return times[2];
}

}  // namespace zonda::bench
