// Time of every CUDA linear tactic on the matrices of Llama-3.1-8B. Arguments: formats (bf16 fp16
// fp8 int8 int4, default bf16 fp8 int4 int8), --all (every tactic, not the best three), --tokens=N
// (that count alone). SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>

#include "linear_case.h"

namespace {

using namespace zonda::bench;  // NOLINT: this program is a part of it

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

void bench_format(const Format& format, const std::vector<int64_t>& token_counts, bool all,
                  int capability, cudaStream_t stream) {
  std::printf("--- %s\n", format.name);
  const int64_t max_tokens = *std::max_element(token_counts.begin(), token_counts.end());
  for (const Matrix& matrix : kMatrices) {
    const int64_t bytes = cuda::packed_bytes(packed_of(format, matrix));
    const Case c(format, matrix, max_tokens, static_cast<int>((kRotateBytes + bytes - 1) / bytes));
    for (size_t i = 0; i < token_counts.size(); ++i) {
      const std::vector<Timed> timed = time_tactics(c, matrix, token_counts[i], capability, stream);
      print_case(matrix, token_counts[i], static_cast<double>(bytes), timed, all);
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
    names = {"bf16", "fp8", "int4", "int8"};
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
