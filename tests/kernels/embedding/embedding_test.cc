// Laws of the embedding lookup: exact rows, for every dtype and thread count.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace zonda::kernels {
namespace {

TEST(Embedding, RowsAreWidenedExactlyAndNothingElseIsWritten) {
  constexpr int64_t kRows = 50;
  constexpr int64_t kSize = 37;
  constexpr int64_t kStride = 40;
  constexpr int64_t kTokens = 100;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> wide(kRows * kSize);
  std::vector<uint16_t> half(wide.size());
  std::vector<uint16_t> bf16(wide.size());
  for (size_t i = 0; i < wide.size(); ++i) {
    wide[i] = normal(random);
    half[i] = float_to_f16(wide[i]);
    bf16[i] = float_to_bf16(wide[i]);
  }
  std::vector<int32_t> ids(kTokens);
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(random() % kRows);
  }
  for (const int threads : {1, 3}) {
    device::ThreadPool pool(threads);
    device::Stream stream(pool);
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      const void* table = dtype == DType::kFloat32   ? static_cast<const void*>(wide.data())
                          : dtype == DType::kFloat16 ? half.data()
                                                     : bf16.data();
      std::vector<float> out(kTokens * kStride, std::numeric_limits<float>::quiet_NaN());
      embedding({.table = table,
                 .ids = ids.data(),
                 .out = out.data(),
                 .num_tokens = kTokens,
                 .num_rows = kRows,
                 .size = kSize,
                 .out_stride = kStride,
                 .dtype = dtype},
                stream);
      for (int64_t t = 0; t < kTokens; ++t) {
        for (int64_t i = 0; i < kStride; ++i) {
          const float value = out[static_cast<size_t>(t * kStride + i)];
          const auto from = static_cast<size_t>(ids[static_cast<size_t>(t)] * kSize + i);
          if (i >= kSize) {
            ASSERT_TRUE(std::isnan(value));
          } else if (dtype == DType::kFloat32) {
            ASSERT_EQ(value, wide[from]);
          } else {
            ASSERT_EQ(value, dtype == DType::kFloat16 ? f16_to_float(half[from])
                                                      : bf16_to_float(bf16[from]));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace zonda::kernels
