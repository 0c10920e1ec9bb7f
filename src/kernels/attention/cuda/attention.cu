// Checks of attention's parameters and the choice of kernel by the cache's type.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cuda/attention.h"

#include "kernels/attention/cuda/attention_launch.h"
#include "kernels/attention/cuda/cache_map.h"
#include "kernels/attention/cuda/prefill_wgmma.h"

namespace zonda::kernels::cuda {
namespace {

bool is_valid(const AttentionParams& p) {
  const PagedKv& kv = p.kv;
  const int64_t width = int64_t{p.num_heads} * kv.head_size;
  const bool heads = kv.num_kv_heads > 0 && p.num_heads > 0 && p.num_heads % kv.num_kv_heads == 0 &&
                     kv.head_size > 0 && kv.head_size <= 256 && kv.head_size % 8 == 0;
  const bool blocks =
      kv.block_size >= 8 && kv.block_size <= 128 && (kv.block_size & (kv.block_size - 1)) == 0;
  const bool rows =
      p.q_stride >= width && p.out_stride >= width && p.q_stride % 8 == 0 && p.out_stride % 8 == 0;
  const bool types = p.activation == DType::kBFloat16 || p.activation == DType::kFloat16;
  return heads && blocks && rows && types && p.scale > 0.0f && p.num_sequences <= 65535;
}

bool is_same_cache(const PagedKv& a, const PagedKv& b) {
  return a.base == b.base && a.block_stride == b.block_stride && a.block_size == b.block_size &&
         a.num_kv_heads == b.num_kv_heads && a.head_size == b.head_size && a.dtype == b.dtype;
}

cudaError_t launch_decode(const AttentionParams& params, const RopeAppendParams* rope,
                          const device::cuda::LaunchSite& site) {
  if (params.num_sequences == 0 || params.max_kv_length == 0) {
    return cudaSuccess;
  }
  const DecodeSplit split = decode_split(params.num_heads, params.kv.num_kv_heads);
  switch (params.kv.dtype) {
    case DType::kBFloat16:
      return launch_decode<DType::kBFloat16>(params, split, rope, site);
    case DType::kFloat16:
      return launch_decode<DType::kFloat16>(params, split, rope, site);
    case DType::kFloat8E4M3:
      return launch_decode<DType::kFloat8E4M3>(params, split, rope, site);
    default:
      return cudaErrorInvalidValue;
  }
}

// The current device's multiprocessors if it is of architecture 90, otherwise 0.
int hopper_multiprocessors() {
  int device = 0;
  int major = 0;
  int minor = 0;
  int count = 0;
  const bool known =
      cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) == cudaSuccess;
  return known && major == 9 && minor == 0 ? count : 0;
}

}  // namespace

int64_t attention_workspace_bytes(int32_t max_sequences, int32_t num_heads, int32_t num_kv_heads,
                                  int32_t head_size) {
  const DecodeSplit split = decode_split(num_heads, num_kv_heads);
  const int64_t rows = int64_t{max_sequences} * num_kv_heads * split.group_tiles;
  return rows * split.shares * (split.heads * head_size + 2 * kDecodeHeads) *
         int64_t{sizeof(float)};
}

cudaError_t decode_attention(const AttentionParams& params, const device::cuda::LaunchSite& site) {
  return is_valid(params) ? launch_decode(params, nullptr, site) : cudaErrorInvalidValue;
}

cudaError_t fused_decode_attention(const AttentionParams& params, const RopeAppendParams& rope,
                                   const device::cuda::LaunchSite& site) {
  const bool valid = is_valid(params) && is_same_cache(params.kv, rope.kv) &&
                     params.q == rope.qkv && params.q_stride == rope.qkv_stride &&
                     params.num_heads == rope.num_heads && params.activation == rope.activation;
  return valid && can_fuse(rope) ? launch_decode(params, &rope, site) : cudaErrorInvalidValue;
}

bool can_fuse(const RopeAppendParams& rope) {
  const int64_t width = int64_t{rope.num_heads + 2 * rope.kv.num_kv_heads} * rope.kv.head_size;
  const bool rotary = rope.style == RopeStyle::kNone ||
                      (rope.rotary_dim % 16 == 0 && rope.rotary_dim <= rope.kv.head_size);
  return rotary && rope.qkv_stride >= width && rope.kv.block_stride % 8 == 0;
}

cudaError_t prefill_attention(const AttentionParams& params, const device::cuda::LaunchSite& site) {
  if (!is_valid(params)) {
    return cudaErrorInvalidValue;
  }
  if (params.num_sequences == 0 || params.max_tokens == 0) {
    return cudaSuccess;
  }
  const int blocks = suits_wgmma(params) ? hopper_multiprocessors() : 0;
  CUtensorMap map;
  if (blocks > 0 && make_cache_map(params.kv, map) == cudaSuccess) {
    switch (params.kv.dtype) {
      case DType::kBFloat16:
        return launch_prefill_wgmma<DType::kBFloat16>(params, map, blocks, site);
      case DType::kFloat16:
        return launch_prefill_wgmma<DType::kFloat16>(params, map, blocks, site);
      case DType::kFloat8E4M3:
        return launch_prefill_wgmma<DType::kFloat8E4M3>(params, map, blocks, site);
      default:
        return cudaErrorInvalidValue;
    }
  }
  switch (params.kv.dtype) {
    case DType::kBFloat16:
      return launch_prefill<DType::kBFloat16>(params, site);
    case DType::kFloat16:
      return launch_prefill<DType::kFloat16>(params, site);
    case DType::kFloat8E4M3:
      return launch_prefill<DType::kFloat8E4M3>(params, site);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace zonda::kernels::cuda
