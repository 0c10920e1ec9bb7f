// Times every linear tactic by format, shape and tokens, beside the machine's limits of the same
// run. Usage: kernels_gemm_bench [threads=1,2] [format=int4] [shape=576x1536] [tokens=1,64]
// [tactic=part of a name] [isa=avx2] [seconds=0.1]
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "device/buffer.h"
#include "kernels/gemm/linear.h"
#include "machine_limits.h"

namespace zonda::bench {
namespace {

using Clock = std::chrono::steady_clock;
using device::Buffer;
using device::CpuIsa;
using kernels::LinearParams;
using kernels::LinearTactic;
using kernels::PackedType;

struct Format {
  const char* name;
  WeightFormat format;
  int32_t group_size;
  bool has_minimum;
};
constexpr Format kFormats[] = {
    {"float32", WeightFormat::kFloat32, 0, false},
    {"float16", WeightFormat::kFloat16, 0, false},
    {"bfloat16", WeightFormat::kBFloat16, 0, false},
    {"int8_g32", WeightFormat::kInt8, 32, false},
    {"int8_g128", WeightFormat::kInt8, 128, false},
    {"int8_pc", WeightFormat::kInt8, 0, false},
    {"int4_g32", WeightFormat::kInt4, 32, false},
    {"int4_g32_min", WeightFormat::kInt4, 32, true},
    {"int4_g128", WeightFormat::kInt4, 128, false},
    {"int4_pc", WeightFormat::kInt4, 0, false},
};
// cols x rows: k -> outputs.
constexpr std::pair<int64_t, int64_t> kShapes[] = {
    {576, 1536}, {1536, 576}, {576, 49152}, {2048, 8192}, {4096, 14336}};
// Copies of a matrix are used in turn so that its weights come from memory.
constexpr int64_t kRotatedBytes = int64_t{192} << 20;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

class Options {
 public:
  Options(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const char* equals = std::strchr(argv[i], '=');
      if (equals != nullptr) {
        values_[std::string(argv[i], static_cast<size_t>(equals - argv[i]))] = equals + 1;
      }
    }
  }
  std::string get(const std::string& name, const std::string& fallback) const {
    const auto found = values_.find(name);
    return found == values_.end() ? fallback : found->second;
  }
  // True if the option is absent or one of its comma-separated parts equals `value`.
  bool selects(const std::string& name, const std::string& value) const {
    const auto found = values_.find(name);
    if (found == values_.end()) {
      return true;
    }
    const std::vector<std::string> parts = split(found->second);
    return std::find(parts.begin(), parts.end(), value) != parts.end();
  }

 private:
  std::map<std::string, std::string> values_;
};

Buffer allocate(int64_t bytes) {
  return std::move(Buffer::allocate(static_cast<size_t>(bytes))).value();
}

// Random bits are fine for integers; for floats and scales they are made small finite numbers.
void fill_weights(Buffer& buffer, WeightFormat format) {
  std::mt19937_64 rng(1);
  auto* words = buffer.as<uint64_t>();
  const bool is_float = !is_quantized(format);
  for (size_t i = 0; i < buffer.size() / 8; ++i) {
    const uint64_t random = rng();
    words[i] = is_float ? (random & 0x83ff'83ff'83ff'83ffull) | 0x3000'3000'3000'3000ull
                        : random & 0xbfff'bfff'bfff'bfffull;
  }
}

// Seconds. One thread is timed by its processor time, so that other processes disturb less.
double now(int threads) {
  timespec time;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Machine {
  double bandwidth, fma, int8;
};

Machine measure_limits(device::ThreadPool& pool, CpuIsa isa) {
  return {read_bandwidth(pool, 8), fma_peak(pool, isa), int8_peak(pool, isa)};
}

class Timing {
 public:
  Timing(const PackedType& packed, int64_t max_tokens, int threads)
      : packed_(packed), bytes_(kernels::packed_bytes(packed)) {
    copies_ = std::max<int64_t>(1, kRotatedBytes / bytes_);
    weights_ = allocate(copies_ * bytes_);
    fill_weights(weights_, packed.type.format);
    x_ = allocate(max_tokens * packed.type.cols * 4);
    y_ = allocate(max_tokens * packed.type.rows * 4);
    workspace_ = allocate(kernels::linear_workspace_bytes(packed, max_tokens, threads));
    std::mt19937 rng(2);
    std::normal_distribution<float> value;
    for (int64_t i = 0; i < max_tokens * packed.type.cols; ++i) {
      x_.as<float>()[i] = value(rng);
    }
  }

  int64_t bytes() const { return bytes_; }

  // Best time of one call, in seconds.
  double best(const LinearTactic& tactic, device::Stream& stream, int64_t tokens, double seconds) {
    double best = 1e30;
    const auto start = Clock::now();
    for (int calls = 0; calls < 3 || Clock::now() - start < std::chrono::duration<double>(seconds);
         ++calls) {
      best = std::min(best, round(tactic, stream, tokens));
    }
    return best;
  }

 private:
  // Mean over enough calls to take about 5 ms: one clock reading would disturb short ones.
  double round(const LinearTactic& tactic, device::Stream& stream, int64_t tokens) {
    const double work = static_cast<double>(packed_.type.rows * packed_.type.cols * tokens);
    const int calls = static_cast<int>(std::clamp(2e8 / work, 1.0, 64.0));
    const double start = now(stream.pool().size());
    for (int i = 0; i < calls; ++i) {
      LinearParams params;
      params.x = x_.as<float>();
      params.x_stride = packed_.type.cols;
      params.weights = weights_.data() + copy_ * bytes_;
      params.y = y_.as<float>();
      params.y_stride = packed_.type.rows;
      params.workspace = workspace_.data();
      params.num_tokens = tokens;
      params.packed = packed_;
      tactic.run(params, stream);
      copy_ = (copy_ + 1) % copies_;
    }
    return (now(stream.pool().size()) - start) / calls;
  }

  PackedType packed_;
  int64_t bytes_;
  int64_t copies_ = 1;
  int64_t copy_ = 0;
  Buffer weights_, x_, y_, workspace_;
};

void bench_matrix(const Options& options, const Format& format, std::pair<int64_t, int64_t> shape,
                  device::ThreadPool& pool, CpuIsa isa) {
  const auto [cols, rows] = shape;
  const PackedType packed{{format.format, rows, cols, format.group_size, format.has_minimum}};
  const std::vector<std::string> tokens = split(options.get("tokens", "1,4,8,16,64,512"));
  int64_t max_tokens = 1;
  for (const std::string& count : tokens) {
    max_tokens = std::max<int64_t>(max_tokens, std::stoll(count));
  }
  Timing timing(packed, max_tokens, pool.size());
  device::Stream stream(pool, isa);
  const Machine machine = measure_limits(pool, isa);
  std::printf("\n%s %lldx%lld, %d threads: read %.1f GB/s, fma %.0f GFLOP/s, int8 %.0f GOP/s\n",
              format.name, static_cast<long long>(cols), static_cast<long long>(rows), pool.size(),
              machine.bandwidth, machine.fma, machine.int8);
  const double peak = is_quantized(format.format) ? machine.int8 : machine.fma;
  const double budget = std::stod(options.get("seconds", "0.1"));
  for (const std::string& count : tokens) {
    const int64_t n = std::stoll(count);
    for (const LinearTactic& tactic : kernels::linear_tactics(packed.type, isa)) {
      const std::string part = options.get("tactic", "");
      const bool hopeless = n > 4 * tactic.max_tokens;
      if (std::string(tactic.name).find(part) == std::string::npos || (hopeless && part.empty())) {
        continue;
      }
      const double seconds = timing.best(tactic, stream, n, budget);
      const double gbytes = static_cast<double>(timing.bytes()) * 1e-9;
      const double gops = 2e-9 * static_cast<double>(rows * cols * n);
      const double floor = std::max(gbytes / machine.bandwidth, gops / peak);
      std::printf("  n=%-4lld %-28s %9.1f us %7.1f GB/s %8.1f GOP/s %4.0f %% of the floor\n",
                  static_cast<long long>(n), std::string(tactic.name).c_str(), seconds * 1e6,
                  gbytes / seconds, gops / seconds, 100.0 * floor / seconds);
      std::fflush(stdout);
    }
  }
}

int run(int argc, char** argv) {
  const Options options(argc, argv);
  CpuIsa isa = device::detect_cpu_isa();
  if (const Result<CpuIsa> asked = device::parse_cpu_isa(options.get("isa", "")); asked) {
    isa = std::min(isa, *asked);
  }
  std::printf("%s, %s\n", device::cpu_model_name().c_str(),
              std::string(device::cpu_isa_name(isa)).c_str());
  for (const std::string& threads : split(options.get("threads", "1,2"))) {
    device::ThreadPool pool(std::stoi(threads));
    for (const Format& format : kFormats) {
      for (const auto& shape : kShapes) {
        const std::string name = std::to_string(shape.first) + "x" + std::to_string(shape.second);
        if (options.selects("format", format.name) && options.selects("shape", name)) {
          bench_matrix(options, format, shape, pool, isa);
        }
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace zonda::bench

int main(int argc, char** argv) { return zonda::bench::run(argc, argv); }
