// Time of every CUDA linear tactic on the matrices of Llama-3.1-8B, and of a decode step's chain of
// linears with the best of them. Arguments: formats (bf16 fp16 int8 int4, default bf16 int4 int8),
// --all (every tactic, not the best three), --tokens=N (that count alone).
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "device/cuda/device_memory.h"
#include "device/cuda/stream.h"
#include "kernels/gemm/cuda/linear.h"

namespace {

using zonda::DType;
using zonda::WeightFormat;
using zonda::device::cuda::DeviceBuffer;
using zonda::device::cuda::LaunchSite;
using zonda::kernels::Epilogue;
using zonda::kernels::PackedType;
using zonda::kernels::RowOrder;
namespace cuda = zonda::kernels::cuda;

constexpr double kReadLimit = 4.50e12;       // bytes/s, measured on an H200
constexpr double kProductLimit = 790e12;     // bf16 FLOP/s, measured
constexpr int64_t kRotateBytes = 256 << 20;  // of distinct weights: more than the L2 cache holds
constexpr int kLayers = 32;

void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    std::printf("%s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
  }
}

DeviceBuffer allocate(int64_t bytes) {
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

constexpr Matrix kMatrices[] = {
    {"qkv", 6144, 4096, Epilogue::kStore, true},
    {"o", 4096, 4096, Epilogue::kAddResidual},
    {"gate_up", 28672, 4096, Epilogue::kGatedSilu, true},
    {"down", 4096, 14336, Epilogue::kAddResidual},
    {"head", 128256, 4096, Epilogue::kStore, true, true},
};
constexpr int kHead = 4;

struct Format {
  const char* name;
  WeightFormat format;
  int32_t group_size = 0;
};
constexpr Format kFormats[] = {{"bf16", WeightFormat::kBFloat16},
                               {"fp16", WeightFormat::kFloat16},
                               {"int8", WeightFormat::kInt8},
                               {"int4", WeightFormat::kInt4, 128}};

PackedType packed_of(const Format& format, const Matrix& matrix) {
  PackedType packed;
  packed.type = {format.format, matrix.rows, matrix.cols, format.group_size, false};
  packed.order =
      matrix.epilogue == Epilogue::kGatedSilu ? RowOrder::kInterleaved : RowOrder::kStacked;
  return packed;
}

DType activation_of(const Format& format) {
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
double time_graph(cudaStream_t stream, const std::function<void()>& issue) {
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

struct Timed {
  const cuda::LinearTactic* tactic;
  bool norm;
  double us;
};

// All tactics for `tokens`, fastest first.
std::vector<Timed> time_tactics(const Case& c, const Matrix& matrix, int64_t tokens, int capability,
                                cudaStream_t stream) {
  std::vector<Timed> timed;
  for (const cuda::LinearTactic& tactic : cuda::linear_tactics(c.packed().type, capability)) {
    if (tokens < tactic.min_tokens || tokens > tactic.max_tokens) {
      continue;
    }
    for (const bool norm : {false, true}) {
      if (norm && !(matrix.norm && tactic.fuses_norm)) {
        continue;
      }
      const double us = time_graph(stream, [&] {
        for (int copy = 0; copy < c.copies(); ++copy) {
          must(tactic.run(c.params(tokens, norm, copy), {stream, true}), tactic.name.data());
        }
      });
      timed.push_back({&tactic, norm, us / c.copies()});
    }
  }
  std::sort(timed.begin(), timed.end(), [](const Timed& a, const Timed& b) { return a.us < b.us; });
  return timed;
}

void print_case(const Matrix& matrix, int64_t tokens, double bytes, const std::vector<Timed>& timed,
                bool all) {
  const double flops = 2.0 * static_cast<double>(matrix.rows * matrix.cols * tokens);
  const double limit_us = std::max(bytes / kReadLimit, flops / kProductLimit) * 1e6;
  const double best = timed.front().us;
  std::printf("%-8s %5ld  %8.1f us %5.0f GB/s %5.0f TF %3.0f %% ", matrix.name,
              static_cast<long>(tokens), best, bytes / best * 1e-3, flops / best * 1e-6,
              100.0 * limit_us / best);
  const size_t shown = all ? timed.size() : std::min<size_t>(timed.size(), 4);
  for (size_t i = 0; i < shown; ++i) {
    std::printf(" %s%s=%.1f", std::string(timed[i].tactic->name).c_str(),
                timed[i].norm ? "+norm" : "", timed[i].us);
  }
  std::printf("\n");
}

// A decode step's 129 linears in one graph: each layer has weights of its own.
void time_chain(const Format& format, int64_t tokens, const std::vector<Timed>& best,
                cudaStream_t stream) {
  std::vector<Case> cases;
  double bytes = 0.0;
  for (const Matrix& matrix : kMatrices) {
    const bool is_head = &matrix == &kMatrices[kHead];
    cases.emplace_back(format, matrix, tokens, is_head ? 1 : kLayers);
    bytes += static_cast<double>(cuda::packed_bytes(cases.back().packed())) * cases.back().copies();
  }
  for (const bool dependent : {false, true}) {
    const double us = time_graph(stream, [&] {
      for (int layer = 0; layer < kLayers; ++layer) {
        for (int m = 0; m < kHead; ++m) {
          const Timed& timed = best[static_cast<size_t>(m)];
          must(timed.tactic->run(cases[static_cast<size_t>(m)].params(tokens, timed.norm, layer),
                                 {stream, dependent}),
               "chain");
        }
      }
      const Timed& timed = best[kHead];
      must(timed.tactic->run(cases[kHead].params(tokens, timed.norm, 0), {stream, dependent}),
           "chain");
    });
    std::printf("chain %s %ld tokens%s: %.3f ms, %.0f GB/s, %.1f %% of the limit, %.0f steps/s\n",
                format.name, static_cast<long>(tokens), dependent ? ", dependent" : "", us * 1e-3,
                bytes / us * 1e-3, 100.0 * bytes / kReadLimit * 1e6 / us, 1e6 / us);
  }
}

void bench_format(const Format& format, const std::vector<int64_t>& token_counts, bool all,
                  int capability, cudaStream_t stream) {
  std::printf("--- %s\n", format.name);
  const int64_t max_tokens = *std::max_element(token_counts.begin(), token_counts.end());
  std::vector<std::vector<Timed>> best(token_counts.size());  // [count][matrix]
  for (const Matrix& matrix : kMatrices) {
    const int64_t bytes = cuda::packed_bytes(packed_of(format, matrix));
    const Case c(format, matrix, max_tokens, static_cast<int>((kRotateBytes + bytes - 1) / bytes));
    for (size_t i = 0; i < token_counts.size(); ++i) {
      const std::vector<Timed> timed = time_tactics(c, matrix, token_counts[i], capability, stream);
      print_case(matrix, token_counts[i], static_cast<double>(bytes), timed, all);
      best[i].push_back(timed.front());
    }
  }
  for (size_t i = 0; i < token_counts.size(); ++i) {
    if (token_counts[i] <= 64) {
      time_chain(format, token_counts[i], best[i], stream);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int64_t> token_counts = {1, 8, 32, 64, 256, 2048};
  std::vector<std::string> names;
  bool all = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--tokens=", 9) == 0) {
      token_counts = {std::atol(argv[i] + 9)};
    } else if (std::strcmp(argv[i], "--all") == 0) {
      all = true;
    } else {
      names.emplace_back(argv[i]);
    }
  }
  if (names.empty()) {
    names = {"bf16", "int4", "int8"};
  }
  cudaDeviceProp device;
  must(cudaGetDeviceProperties(&device, 0), "device");
  std::printf("%s; limits %.2f TB/s, %.0f TFLOP/s\n", device.name, kReadLimit * 1e-12,
              kProductLimit * 1e-12);
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  for (const std::string& name : names) {
    for (const Format& format : kFormats) {
      if (name == format.name) {
        bench_format(format, token_counts, all, device.major * 10 + device.minor, stream);
      }
    }
  }
  must(cudaDeviceSynchronize(), "end");
  return 0;
}
