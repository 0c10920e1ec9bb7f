// Times the choice of tokens on the current CUDA device: 128256 logits a row, in replayed graphs
// with dependent launches, logits rotated beyond the L2. The bytes of a row are its logits read
// once. SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/cuda/sample.h"
#include "timing.h"

namespace zonda::bench {
namespace {

using kernels::DrawParams;
using kernels::TokenCount;
using kernels::cuda::LogprobParams;
using kernels::cuda::RowMode;
using kernels::cuda::SampleLimits;
using kernels::cuda::SampleParams;
using kernels::cuda::SampleRow;

constexpr int64_t kVocab = 128256;
constexpr int64_t kMaxRows = 256;
constexpr int kCountsPerRow = 500;
constexpr SampleLimits kLimits = {
    .max_rows = kMaxRows, .vocab = kVocab, .max_counts = kMaxRows * kCountsPerRow};

struct Setting {
  cudaStream_t stream = nullptr;
  float* logits = nullptr;  // [2 * kMaxRows, kVocab]
  SampleRow* rows = device_array<SampleRow>(kMaxRows);
  TokenCount* counts = nullptr;
  int32_t* ids = device_array<int32_t>(kMaxRows);
  std::byte* workspace = device_array<std::byte>(kernels::cuda::sample_workspace_bytes(kLimits));

  Setting() {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    std::vector<TokenCount> entries;
    for (int32_t i = 0; i < kMaxRows * kCountsPerRow; ++i) {
      entries.push_back({.token = i % kCountsPerRow * 251, .generated = 1 + i % 3});
    }
    counts = device_copy(entries);
  }
};

struct Case {
  const char* name;
  SampleRow row;
  float spread;  // of the normal logits
};

SampleRow draw(const DrawParams& params) {
  SampleRow row;
  row.mode = RowMode::kDraw;
  row.draw = params;
  return row;
}

SampleRow greedy() {
  SampleRow row;
  row.mode = RowMode::kGreedy;
  return row;
}

SampleRow penalised() {
  SampleRow row = greedy();
  row.repetition_penalty = 1.1f;
  row.counts = {0, kCountsPerRow};
  return row;
}

// Copies of the logits that a graph takes in turn: about 256 MiB, all of those there are.
int copies(int64_t rows) { return static_cast<int>(2 * kMaxRows / rows); }

void time_case(Setting& setting, const Case& test, int64_t rows) {
  std::vector<SampleRow> asked(static_cast<size_t>(kMaxRows), test.row);
  for (size_t i = 0; i < asked.size(); ++i) {
    asked[i].draw.uniform = kernels::uniform(1, i);
    if (asked[i].counts.end > 0) {
      const auto begin = static_cast<int32_t>(i) * kCountsPerRow;
      asked[i].counts = {begin, begin + kCountsPerRow};
    }
  }
  check(cudaMemcpy(setting.rows, asked.data(), asked.size() * sizeof(SampleRow),
                   cudaMemcpyHostToDevice),
        "rows");
  const double us = time_calls(setting.stream, copies(rows), [&](int copy) {
    return kernels::cuda::sample({.logits = setting.logits + copy * rows * kVocab,
                                  .logits_stride = kVocab,
                                  .rows = setting.rows,
                                  .counts = setting.counts,
                                  .ids = setting.ids,
                                  .workspace = setting.workspace,
                                  .limits = kLimits,
                                  .num_rows = rows,
                                  .any_changes = test.row.counts.end > 0,
                                  .any_draws = test.row.mode == RowMode::kDraw},
                                 {.stream = setting.stream, .dependent = true});
  });
  print_row(test.name, rows, us, static_cast<double>(rows * kVocab) * sizeof(float));
}

void time_logprobs(Setting& setting, int64_t rows, int32_t top_n) {
  const int32_t top = kernels::cuda::kMaxTopLogprobs;
  int32_t* const chosen = device_array<int32_t>(kMaxRows);
  int32_t* const top_ns = device_copy(std::vector<int32_t>(static_cast<size_t>(kMaxRows), top_n));
  float* const logprobs = device_array<float>(kMaxRows * (1 + top));
  int32_t* const tokens = device_array<int32_t>(kMaxRows * (1 + top));
  const double us = time_calls(setting.stream, copies(rows), [&](int copy) {
    return kernels::cuda::row_logprobs({.logits = setting.logits + copy * rows * kVocab,
                                        .logits_stride = kVocab,
                                        .chosen = chosen,
                                        .top_n = top_ns,
                                        .chosen_logprobs = logprobs,
                                        .chosen_ranks = tokens,
                                        .top_tokens = tokens + kMaxRows,
                                        .top_logprobs = logprobs + kMaxRows,
                                        .workspace = setting.workspace,
                                        .limits = kLimits,
                                        .num_rows = rows},
                                       {.stream = setting.stream, .dependent = true});
  });
  print_row(top_n == 0 ? "log-probability" : "log-probabilities, top 20", rows, us,
            static_cast<double>(rows * kVocab) * sizeof(float));
  check(cudaFree(chosen), "free");
  check(cudaFree(top_ns), "free");
  check(cudaFree(logprobs), "free");
  check(cudaFree(tokens), "free");
}

void run() {
  Setting setting;
  const Case cases[] = {
      {"greedy", greedy(), 3.0f},
      {"greedy, 500 counted tokens", penalised(), 3.0f},
      {"temperature 1", draw({}), 3.0f},
      {"top-k 50, top-p 0.9", draw({.temperature = 0.7f, .top_k = 50, .top_p = 0.9f}), 3.0f},
      {"top-p 0.95", draw({.temperature = 0.8f, .top_p = 0.95f}), 3.0f},
      {"min-p 0.05", draw({.min_p = 0.05f}), 3.0f},
      {"top-p 0.95, flat", draw({.top_p = 0.95f}), 0.5f},
      {"top-p 0.95, equal logits", draw({.top_p = 0.95f}), 0.0f},
  };
  std::printf("%-34s %6s %12s %13s %7s\n", "case", "rows", "time", "logits once", "of 4.5");
  float spread = -1.0f;
  for (const Case& test : cases) {
    if (test.spread != spread) {
      check(cudaFree(setting.logits), "free");
      spread = test.spread;
      setting.logits = normal_array<float>(2 * kMaxRows * kVocab, spread, 5);
    }
    for (const int64_t rows : {1, 8, 32, 128, 256}) {
      time_case(setting, test, rows);
    }
  }
  check(cudaFree(setting.logits), "free");
  setting.logits = normal_array<float>(2 * kMaxRows * kVocab, 3.0f, 5);
  for (const int32_t top_n : {0, 20}) {
    for (const int64_t rows : {1, 32, 256}) {
      time_logprobs(setting, rows, top_n);
    }
  }
}

}  // namespace
}  // namespace zonda::bench

int main() {
  zonda::bench::run();
  return 0;
}
