// Times decode attention, prefill attention and rotary append on the current CUDA device: 32 query
// heads, 8 KV heads, head size 128, as Llama-3.1-8B has them. SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/dependent.cuh"
#include "kernels/attention/cuda/attention.h"
#include "kernels/rope/cuda/rope.h"
#include "timing.h"

namespace zonda {
namespace {

using bench::check;
using bench::device_array;
using bench::device_copy;
using bench::kReadLimit;
using kernels::PagedKv;
using kernels::cuda::AttentionParams;
using kernels::cuda::RopeAppendParams;

constexpr int kHeads = 32;
constexpr int kKvHeads = 8;
constexpr int kHeadSize = 128;
constexpr int kBlockSize = 32;
constexpr int64_t kQkvWidth = (kHeads + 2 * kKvHeads) * kHeadSize;
constexpr int64_t kSlotElements = 2 * kKvHeads * kHeadSize;
constexpr int kMaxBatch = 512;
constexpr int64_t kPoolBytes = int64_t{3072} << 20;
constexpr int64_t kMaxTokens = 32256;
constexpr double kMathLimit = 790e12;
constexpr int kLaunches = 32;  // of one graph

// Everything that the cases share.
struct Setting {
  cudaStream_t stream = nullptr;
  std::byte* pool = device_array<std::byte>(kPoolBytes);
  __nv_bfloat16* qkv = device_array<__nv_bfloat16>(kMaxTokens * kQkvWidth);
  __nv_bfloat16* out = device_array<__nv_bfloat16>(kMaxTokens * kHeads * kHeadSize);
  std::byte* workspace = device_array<std::byte>(
      kernels::cuda::attention_workspace_bytes(kMaxBatch, kHeads, kKvHeads, kHeadSize));
  uint32_t* arrivals = device_array<uint32_t>(kMaxBatch * kHeads);

  Setting() {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    bench::fill_normal<<<1024, 256>>>(qkv, kMaxTokens * kQkvWidth, 1.0f, uint64_t{1});
  }
  void fill_pool(DType dtype) {
    if (dtype == DType::kFloat8E4M3) {
      bench::fill_normal<<<4096, 256>>>(reinterpret_cast<__nv_fp8_e4m3*>(pool), kPoolBytes, 1.0f,
                                        uint64_t{1});
    } else {
      bench::fill_normal<<<4096, 256>>>(reinterpret_cast<__nv_bfloat16*>(pool), kPoolBytes / 2,
                                        1.0f, uint64_t{1});
    }
    check(cudaDeviceSynchronize(), "fill");
  }
};

PagedKv cache(std::byte* base, DType dtype) {
  return {.base = base,
          .block_stride = kBlockSize * kSlotElements,
          .block_size = kBlockSize,
          .num_kv_heads = kKvHeads,
          .head_size = kHeadSize,
          .dtype = dtype};
}

// `tokens` tokens of sequences of `contexts` keys.
AttentionParams attention_params(Setting& s, int tokens, const std::vector<int>& contexts,
                                 DType dtype) {
  const auto sequences = static_cast<int>(contexts.size());
  const int longest = *std::max_element(contexts.begin(), contexts.end());
  const int columns = (longest + kBlockSize - 1) / kBlockSize;
  std::vector<int32_t> begins;
  std::vector<int32_t> starts;
  int blocks = 0;
  for (int i = 0; i < sequences; ++i) {
    begins.push_back(i * tokens);
    starts.push_back(contexts[i] - tokens);
    blocks += (contexts[i] + kBlockSize - 1) / kBlockSize;
  }
  std::vector<int32_t> ids(blocks);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937(1));
  std::vector<int32_t> table(static_cast<size_t>(sequences) * columns);
  for (int i = 0; i < sequences; ++i) {
    for (int b = 0; b * kBlockSize < contexts[i]; ++b) {
      table[static_cast<size_t>(i) * columns + b] = ids[--blocks];
    }
  }
  return {.q = s.qkv,
          .out = s.out,
          .token_begin = device_copy(begins),
          .num_tokens = device_copy(std::vector<int32_t>(sequences, tokens)),
          .start_position = device_copy(starts),
          .block_tables = device_copy(table),
          .table_stride = columns,
          .num_sequences = sequences,
          .max_tokens = tokens,
          .max_kv_length = longest,
          .kv = cache(s.pool, dtype),
          .workspace = s.workspace,
          .arrivals = s.arrivals,
          .q_stride = kQkvWidth,
          .out_stride = kHeads * kHeadSize,
          .num_heads = kHeads,
          .scale = 1.0f / std::sqrt(static_cast<float>(kHeadSize))};
}
AttentionParams attention_params(Setting& s, int sequences, int tokens, int context, DType dtype) {
  return attention_params(s, tokens, std::vector<int>(sequences, context), dtype);
}

void decode_case(Setting& s, DType dtype, int batch, int context) {
  AttentionParams params = attention_params(s, batch, 1, context, dtype);
  const int64_t blocks = (context + kBlockSize - 1) / kBlockSize;
  const int64_t bytes = batch * blocks * kBlockSize * kSlotElements * dtype_size(dtype);
  const int64_t copies = std::min<int64_t>(kPoolBytes / bytes, 64);
  double us[3];
  const int bounds[3] = {context, context, 131072};
  for (int mode = 0; mode < 3; ++mode) {
    params.max_kv_length = bounds[mode];
    us[mode] = bench::time_calls(s.stream, kLaunches, [&](int i) {
      params.kv.base = s.pool + i % copies * bytes;
      return kernels::cuda::decode_attention(params, {s.stream, mode > 0});
    });
  }
  const double rate = static_cast<double>(bytes) / us[1] * 1e6;
  std::printf(
      "decode  %-8s batch %3d context %5d  %8.2f us  dependent %8.2f us  bound 131072 %8.2f us"
      "  %7.1f GB/s  %5.1f %%\n",
      dtype_name(dtype).data(), batch, context, us[0], us[1], us[2], rate * 1e-9,
      100.0 * rate / kReadLimit);
}

void prefill_case(Setting& s, DType dtype, int sequences, int tokens, int context,
                  int head_size = kHeadSize) {
  AttentionParams params = attention_params(s, sequences, tokens, context, dtype);
  params.kv.head_size = head_size;
  const double start = context - tokens;
  const double pairs = tokens * (start + (tokens + 1.0) / 2) * sequences;
  const double operations = 4.0 * pairs * kHeads * head_size;
  const int launches = static_cast<int>(std::clamp(4e12 / operations, 2.0, double{kLaunches}));
  const double us = bench::time_calls(s.stream, launches, [&](int) {
    return kernels::cuda::prefill_attention(params, {s.stream, false});
  });
  const double rate = operations / us * 1e6;
  std::printf(
      "prefill %-8s %2d x %5d tokens of %5d, heads of %3d  %9.1f us  floor %9.1f us"
      "  %6.1f TFLOP/s  %5.1f %%\n",
      dtype_name(dtype).data(), sequences, tokens, context, head_size, us,
      operations / kMathLimit * 1e6, rate * 1e-12, 100.0 * rate / kMathLimit);
}

RopeAppendParams rope_params(Setting& s, DType dtype, int tokens, int first_position) {
  std::vector<int32_t> positions(tokens);
  std::iota(positions.begin(), positions.end(), first_position);
  std::vector<int64_t> slots(tokens);
  std::iota(slots.begin(), slots.end(), 0);
  std::vector<float> inv_freq;
  for (int i = 0; i < kHeadSize / 2; ++i) {
    inv_freq.push_back(std::pow(500000.0f, -2.0f * static_cast<float>(i) / kHeadSize));
  }
  return {.qkv = s.qkv,
          .positions = device_copy(positions),
          .slots = device_copy(slots),
          .inv_freq = device_copy(inv_freq),
          .kv = cache(s.pool, dtype),
          .num_tokens = tokens,
          .qkv_stride = kQkvWidth,
          .num_heads = kHeads,
          .rotary_dim = kHeadSize};
}

// rope_append and decode_attention of one token each, against both in one launch.
void fused_case(Setting& s, DType dtype, int batch, int context) {
  AttentionParams params = attention_params(s, batch, 1, context, dtype);
  RopeAppendParams rope = rope_params(s, dtype, batch, context);
  const int64_t blocks = (context + kBlockSize - 1) / kBlockSize;
  const int64_t bytes = batch * blocks * kBlockSize * kSlotElements * dtype_size(dtype);
  const int64_t copies = std::min<int64_t>(kPoolBytes / bytes, 64);
  double us[2];
  for (const int fused : {0, 1}) {
    us[fused] = bench::time_calls(s.stream, kLaunches, [&](int i) {
      params.kv.base = s.pool + i % copies * bytes;
      rope.kv.base = params.kv.base;
      if (fused == 1) {
        return kernels::cuda::fused_decode_attention(params, rope, {s.stream, true});
      }
      const cudaError_t status = kernels::cuda::rope_append(rope, {s.stream, true});
      return status != cudaSuccess ? status
                                   : kernels::cuda::decode_attention(params, {s.stream, true});
    });
  }
  std::printf("append and decode %-8s batch %3d context %5d  apart %8.2f us  fused %8.2f us\n",
              dtype_name(dtype).data(), batch, context, us[0], us[1]);
}

// A small kernel between two attentions: reads what the first wrote, writes what the second reads.
__global__ void stand_in(const uint4* out, uint4* qkv, int64_t chunks) {
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < chunks) {
    const uint4 x = out[i];
    uint4 q = qkv[i];
    q.x ^= x.x == 0x12345678u ? 1u : 0u;
    qkv[i] = q;
  }
}

// As in a decoding step: fused attention, another kernel, attention of the next layer over its own
// cache. Prints the time of a pair and the pair without a chain of the other kernels alone.
void chain_case(Setting& s, DType dtype, const char* what, const std::vector<int>& contexts) {
  const auto batch = static_cast<int>(contexts.size());
  AttentionParams params = attention_params(s, 1, contexts, dtype);
  RopeAppendParams rope = rope_params(s, dtype, batch, 0);
  std::vector<int32_t> table(static_cast<size_t>(batch * params.table_stride));
  check(cudaMemcpy(table.data(), params.block_tables, table.size() * 4, cudaMemcpyDeviceToHost),
        "table");
  std::vector<int64_t> slots;
  int64_t keys = 0;
  int64_t blocks = 0;
  for (int i = 0; i < batch; ++i) {
    const int64_t last = contexts[i] - 1;
    slots.push_back(int64_t{table[i * params.table_stride + last / kBlockSize]} * kBlockSize +
                    last % kBlockSize);
    keys += contexts[i];
    blocks += last / kBlockSize + 1;
  }
  rope.slots = device_copy(slots);
  const int64_t of_cache = blocks * kBlockSize * kSlotElements * dtype_size(dtype);
  const int64_t copies = std::min<int64_t>(kPoolBytes / of_cache, 128);
  const int calls = static_cast<int>(std::clamp<int64_t>(copies, 8, 128));
  const int64_t chunks = int64_t{batch} * kHeads * kHeadSize / 8;
  double us[2];
  for (const int with : {0, 1}) {
    us[with] = bench::time_calls(s.stream, calls, [&](int i) {
      params.kv.base = s.pool + i % copies * of_cache;
      rope.kv.base = params.kv.base;
      const device::cuda::LaunchSite site{s.stream, true};
      const cudaError_t status =
          with == 1 ? kernels::cuda::fused_decode_attention(params, rope, site) : cudaSuccess;
      return status != cudaSuccess
                 ? status
                 : device::cuda::launch(stand_in, dim3(static_cast<unsigned>((chunks + 127) / 128)),
                                        dim3(128), 0, site, reinterpret_cast<const uint4*>(s.out),
                                        reinterpret_cast<uint4*>(s.qkv), chunks);
    });
  }
  const double bytes = static_cast<double>(keys) * kSlotElements * dtype_size(dtype);
  const double alone = us[1] - us[0];
  std::printf("chain %-8s %-22s pair %8.2f us  attention %8.2f us  floor %7.2f us  %5.1f %%\n",
              dtype_name(dtype).data(), what, us[1], alone, bytes / kReadLimit * 1e6,
              100.0 * bytes / alone * 1e6 / kReadLimit);
}

void chain_cases(Setting& s, DType dtype) {
  const auto even = [&](int batch, int context) {
    const std::string what = std::to_string(batch) + " x " + std::to_string(context);
    chain_case(s, dtype, what.c_str(), std::vector<int>(static_cast<size_t>(batch), context));
  };
  even(1, 512);
  even(1, 1024);
  even(1, 4096);
  even(1, 32768);
  even(8, 512);
  even(8, 4096);
  even(16, 512);
  even(32, 1024);
  even(128, 256);
  even(128, 1024);
  even(512, 256);
  std::mt19937 random(3);
  for (const int batch : {16, 64, 512}) {
    std::vector<int> contexts;
    for (int i = 0; i < batch; ++i) {
      contexts.push_back(std::uniform_int_distribution<int>(128, 2200)(random));
    }
    chain_case(s, dtype, (std::to_string(batch) + " x 128 to 2200").c_str(), contexts);
  }
}

void rope_case(Setting& s, DType dtype, int tokens) {
  const RopeAppendParams params = rope_params(s, dtype, tokens, 500);
  double us[2];
  for (const int dependent : {0, 1}) {
    us[dependent] = bench::time_calls(s.stream, kLaunches, [&](int) {
      return kernels::cuda::rope_append(params, {s.stream, dependent == 1});
    });
  }
  const int64_t qk = (kHeads + kKvHeads) * kHeadSize * 2;
  const int64_t bytes =
      tokens * (qk * 2 + kKvHeads * kHeadSize * 2 + kSlotElements * dtype_size(dtype));
  const double rate = static_cast<double>(bytes) / us[1] * 1e6;
  std::printf("rope    %-8s %5d tokens  %8.2f us  dependent %8.2f us  %7.1f GB/s\n",
              dtype_name(dtype).data(), tokens, us[0], us[1], rate * 1e-9);
}

void all_cases(Setting& s, DType dtype) {
  for (const int batch : {1, 8, 32, 128}) {
    for (const int context : {512, 1024, 4096}) {
      decode_case(s, dtype, batch, context);
    }
  }
  decode_case(s, dtype, 1, 32768);
  fused_case(s, dtype, 1, 512);
  fused_case(s, dtype, 1, 4096);
  fused_case(s, dtype, 32, 1024);
  prefill_case(s, dtype, 1, 512, 512);
  prefill_case(s, dtype, 1, 2048, 2048);
  prefill_case(s, dtype, 4, 2048, 2048);
  prefill_case(s, dtype, 1, 2048, 8192);
  prefill_case(s, dtype, 1, 8192, 8192);
  prefill_case(s, dtype, 1, 32256, 32256);
  prefill_case(s, dtype, 1, 8192, 8192, 64);
  prefill_case(s, dtype, 1, 8192, 8192, 96);
  for (const int tokens : {1, 32, 2048}) {
    rope_case(s, dtype, tokens);
  }
}

// `only_chains`: the chains of a decoding step and nothing else.
void run(bool only_chains) {
  Setting s;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat8E4M3}) {
    s.fill_pool(dtype);
    chain_cases(s, dtype);
    if (!only_chains) {
      all_cases(s, dtype);
    }
  }
}

}  // namespace
}  // namespace zonda

// usage: cuda_attention_bench [chains]
int main(int argc, char** argv) {
  zonda::run(argc > 1 && std::string_view(argv[1]) == "chains");
  return 0;
}
