// Times attention in decode and prefill beside the time that this machine's memory and multiply-add
// limits of the same run allow. Usage: kernels_attention_bench [threads=1,2] [isa=avx2]
// [seconds=0.3]
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "device/buffer.h"
#include "kernels/attention/attention.h"
#include "machine_limits.h"

namespace zonda::bench {
namespace {

using Clock = std::chrono::steady_clock;
using device::Buffer;
using kernels::AttentionParams;
using kernels::AttentionRow;

struct Heads {
  int32_t num_heads, num_kv_heads, head_size;
};
constexpr Heads kHeads[] = {{9, 3, 64}, {32, 8, 128}};
constexpr DType kDTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32};
constexpr int32_t kBlockSize = 32;
// Decode takes layers in turn, so that keys and values come from memory as in a model.
constexpr int64_t kRotatedBytes = int64_t{192} << 20;

struct Options {
  std::vector<int> threads = {1, device::available_cpus()};
  device::CpuIsa isa = device::detect_cpu_isa();
  double seconds = 0.3;
};

struct Case {
  Heads heads;
  DType dtype;
  int32_t start;   // keys before the step
  int32_t tokens;  // new tokens of the one sequence
  int layers;      // caches taken in turn

  int32_t keys() const { return start + tokens; }
  int32_t blocks() const { return (keys() + kBlockSize - 1) / kBlockSize; }
  int64_t block_elements() const {
    return int64_t{2} * heads.num_kv_heads * kBlockSize * heads.head_size;
  }
  int64_t layer_bytes() const { return blocks() * block_elements() * dtype_size(dtype); }
  double operations() const {
    const double pairs = static_cast<double>(tokens) * start + 0.5 * tokens * (tokens + 1.0);
    return 4.0 * heads.head_size * heads.num_heads * pairs;
  }
  double bytes() const {
    return 2.0 * keys() * heads.num_kv_heads * heads.head_size *
           static_cast<double>(dtype_size(dtype));
  }
};

// All memory of one case; values are small finite numbers in every dtype.
class Workload {
 public:
  Workload(const Case& c, int threads) : case_(c) {
    cache_ = *Buffer::allocate(static_cast<size_t>(c.layer_bytes() * c.layers));
    auto* bits = cache_.as<uint16_t>();
    std::mt19937 random(1);
    for (size_t i = 0; i < cache_.size() / 2; ++i) {
      bits[i] = static_cast<uint16_t>(0x3800 + (random() & 0x83ff));  // around 0.5, either sign
    }
    const int64_t width = int64_t{c.heads.num_heads} * c.heads.head_size;
    q_.resize(static_cast<size_t>(width * c.tokens));
    for (float& value : q_) {
      value = static_cast<float>(random() % 1000) / 1000.0f - 0.5f;
    }
    out_.resize(q_.size());
    table_.resize(static_cast<size_t>(c.blocks()));
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), random);
    row_ = {.token_begin = 0,
            .num_tokens = c.tokens,
            .start_position = c.start,
            .block_table = table_.data()};
    workspace_ = *Buffer::allocate(static_cast<size_t>(kernels::attention_workspace_bytes(
        c.tokens, c.heads.num_heads, c.heads.head_size, threads)));
  }

  void run(device::Stream& stream) {
    const Case& c = case_;
    const int64_t width = int64_t{c.heads.num_heads} * c.heads.head_size;
    kernels::attention({.q = q_.data(),
                        .out = out_.data(),
                        .rows = {&row_, 1},
                        .kv = {.base = cache_.data() + layer_ * c.layer_bytes(),
                               .block_stride = c.block_elements(),
                               .block_size = kBlockSize,
                               .num_kv_heads = c.heads.num_kv_heads,
                               .head_size = c.heads.head_size,
                               .dtype = c.dtype},
                        .workspace = workspace_.data(),
                        .q_stride = width,
                        .out_stride = width,
                        .num_heads = c.heads.num_heads,
                        .scale = 0.125f},
                       stream);
    layer_ = (layer_ + 1) % c.layers;
  }

 private:
  Case case_;
  Buffer cache_;
  Buffer workspace_;
  std::vector<float> q_;
  std::vector<float> out_;
  std::vector<int32_t> table_;
  AttentionRow row_;
  int64_t layer_ = 0;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds of the fastest call: other programs on the machine only ever add time.
double time_case(const Case& c, device::Stream& stream, double seconds) {
  Workload workload(c, stream.pool().size());
  for (int i = 0; i < 2; ++i) {
    workload.run(stream);
  }
  double best = 1e30;
  int calls = 0;
  for (const auto start = Clock::now(); calls < 5 || seconds_since(start) < seconds; ++calls) {
    const auto call = Clock::now();
    workload.run(stream);
    best = std::min(best, seconds_since(call));
  }
  return best;
}

void bench_heads(const Heads& heads, DType dtype, device::Stream& stream, double bandwidth,
                 double flops, double seconds) {
  for (const bool decode : {true, false}) {
    for (const int32_t keys : {512, 2048}) {
      Case c{heads, dtype, decode ? keys - 1 : 0, decode ? 1 : keys, 1};
      if (decode) {
        c.layers = static_cast<int>(std::max<int64_t>(1, kRotatedBytes / c.layer_bytes()));
      }
      const double time = time_case(c, stream, seconds);
      const double floor = std::max(c.bytes() / bandwidth, c.operations() / flops);
      std::printf("%2d/%d/%-3d  %-8s  %-7s %4d  %9.1f us  floor %9.1f us  %3.0f %%\n",
                  heads.num_heads, heads.num_kv_heads, heads.head_size,
                  std::string(dtype_name(dtype)).c_str(), decode ? "decode" : "prefill", keys,
                  time * 1e6, floor * 1e6, 100.0 * floor / time);
    }
  }
}

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const std::string value = text.substr(std::min(text.size(), text.find('=') + 1));
    if (text.rfind("threads=", 0) == 0) {
      options->threads.clear();
      for (const char* at = value.c_str(); *at != '\0';) {
        char* end = nullptr;
        options->threads.push_back(static_cast<int>(std::strtol(at, &end, 10)));
        at = *end == ',' ? end + 1 : end;
        if (options->threads.back() < 1) {
          return false;
        }
      }
    } else if (text.rfind("isa=", 0) == 0 && device::parse_cpu_isa(value).ok()) {
      options->isa = *device::parse_cpu_isa(value);
    } else if (text.rfind("seconds=", 0) == 0) {
      options->seconds = std::strtod(value.c_str(), nullptr);
    } else {
      std::fprintf(stderr, "[kernels_attention_bench] unknown option %s.\n", text.c_str());
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace zonda::bench

int main(int argc, char** argv) {
  using namespace zonda;
  bench::Options options;
  if (!bench::parse(argc, argv, &options)) {
    return 2;
  }
  for (const int threads : options.threads) {
    device::ThreadPool pool(threads);
    device::Stream stream(pool, options.isa);
    const double bandwidth =
        std::max(bench::read_bandwidth(pool, 1), bench::read_bandwidth(pool, 4)) * 1e9;
    const double flops = bench::fma_peak(pool, options.isa) * 1e9;
    std::printf("%d threads, %s: reads %.1f GB/s, fp32 %.0f Gflop/s\n", threads,
                std::string(device::cpu_isa_name(options.isa)).c_str(), bandwidth / 1e9,
                flops / 1e9);
    for (const bench::Heads& heads : bench::kHeads) {
      for (const DType dtype : bench::kDTypes) {
        bench::bench_heads(heads, dtype, stream, bandwidth, flops, options.seconds);
      }
    }
  }
  return 0;
}
