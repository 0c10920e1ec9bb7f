// Attention in plain loops, in the order of attention_range.h: the oracle of the tests and the
// portable kernel.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/activation/exp.h"
#include "kernels/attention/attention_checks.h"
#include "kernels/attention/cpu/attention_range.h"
#include "kernels/attention/reference/attention_reference.h"
#include "kernels/rope/kv_layout.h"

namespace zonda::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float kv_value(const PagedKv& kv, int64_t at) {
  switch (kv.dtype) {
    case DType::kFloat16:
      return f16_to_float(static_cast<const uint16_t*>(kv.base)[at]);
    case DType::kBFloat16:
      return bf16_to_float(static_cast<const uint16_t*>(kv.base)[at]);
    default:
      return static_cast<const float*>(kv.base)[at];
  }
}

// One query row: a token of a sequence and one of its heads.
struct QueryRow {
  const AttentionParams& params;
  const AttentionRow& row;
  const float* q;
  int32_t kv_head;

  int64_t kv_offset(int32_t position, int kind) const {
    const PagedKv& kv = params.kv;
    const int64_t block = row.block_table[position / kv.block_size];
    return kv_element_offset(kv, block * kv.block_size + position % kv.block_size, kind, kv_head);
  }

  float score(int32_t position) const {
    const int64_t key = kv_offset(position, 0);
    float dot = 0.0f;
    for (int32_t d = 0; d < params.kv.head_size; ++d) {
      dot = std::fma(q[d], kv_value(params.kv, key + d), dot);
    }
    const float s = dot * params.scale;
    const float cap = params.soft_cap;
    return cap > 0.0f ? fast_tanh<Scalar>(s / cap) * cap : s;
  }

  // Joins the keys [begin, end), all of one range, to max, sum and out.
  void join_range(int32_t begin, int32_t end, float* max, float* sum, float* out) const {
    float p[kRangeKeys];
    float range_max = -kInfinity;
    for (int32_t k = begin; k < end; ++k) {
      p[k - begin] = score(k);
      range_max = p[k - begin] > range_max ? p[k - begin] : range_max;
    }
    float lane[16] = {};
    for (int32_t k = begin; k < end; ++k) {
      p[k - begin] = fast_exp<Scalar>(p[k - begin] - range_max);
      lane[k % 16] += p[k - begin];
    }
    for (int half = 8; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) {
        lane[j] += lane[j + half];
      }
    }
    const float new_max = range_max > *max ? range_max : *max;
    const float a = fast_exp<Scalar>(*max - new_max);
    const float b = fast_exp<Scalar>(range_max - new_max);
    *max = new_max;
    *sum = std::fma(*sum, a, lane[0] * b);
    for (int32_t d = 0; d < params.kv.head_size; ++d) {
      float o = 0.0f;
      for (int32_t k = begin; k < end; ++k) {
        o = std::fma(p[k - begin], kv_value(params.kv, kv_offset(k, 1) + d), o);
      }
      out[d] = std::fma(out[d], a, o * b);
    }
  }
};

}  // namespace

void attention_reference_head(const AttentionParams& params, const AttentionRow& row, int32_t token,
                              int32_t head) {
  const int32_t size = params.kv.head_size;
  const int64_t index = row.token_begin + token;
  const int32_t group = params.num_heads / params.kv.num_kv_heads;
  const QueryRow query{params, row, params.q + index * params.q_stride + int64_t{head} * size,
                       head / group};
  float* out = params.out + index * params.out_stride + int64_t{head} * size;
  std::fill(out, out + size, 0.0f);
  float max = -kInfinity;
  float sum = 0.0f;
  const VisibleKeys keys = visible_keys(params, row, token);
  for (int32_t begin = keys.begin; begin < keys.end;) {
    const int32_t end = std::min(keys.end, (begin / kRangeKeys + 1) * kRangeKeys);
    query.join_range(begin, end, &max, &sum, out);
    begin = end;
  }
  const float inverse = 1.0f / sum;
  for (int32_t d = 0; d < size; ++d) {
    out[d] *= inverse;
  }
}

void attention_reference(const AttentionParams& params) {
  check_attention(params);
  for (const AttentionRow& row : params.rows) {
    for (int32_t token = 0; token < row.num_tokens; ++token) {
      for (int32_t head = 0; head < params.num_heads; ++head) {
        attention_reference_head(params, row, token, head);
      }
    }
  }
}

}  // namespace zonda::kernels
