// Launches decode attention: chooses the kernel by head size and by the device's shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/decode_kernel.cuh"

namespace zonda::kernels::cuda {

struct DecodeDevice {
  int multiprocessors = 0;
  int shared_bytes = 0;        // of a multiprocessor
  int block_shared_bytes = 0;  // at most, of a block
  int major = 0;               // of the compute capability

  cudaError_t read() {
    int device = 0;
    cudaError_t status = cudaGetDevice(&device);
    const auto get = [&](int& value, cudaDeviceAttr attribute) {
      if (status == cudaSuccess) {
        status = cudaDeviceGetAttribute(&value, attribute, device);
      }
    };
    get(multiprocessors, cudaDevAttrMultiProcessorCount);
    get(shared_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    get(block_shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    get(major, cudaDevAttrComputeCapabilityMajor);
    return status;
  }
};

struct DecodeLaunch {
  const AttentionParams& params;
  const DecodeSplit& split;
  const RopeAppendParams* rope;  // null: not fused
  const DecodeDevice& device;
  const device::cuda::LaunchSite& site;
};

template <DType kKv, int kHead, bool kExact, bool kFused, int kStages>
cudaError_t launch_decode(const DecodeLaunch& l) {
  using Shared = DecodeShared<kKv, kHead, kStages>;
  constexpr int kReserved = 1024;  // by the system, for each block
  const auto kernel = decode_kernel<kKv, kHead, kExact, kFused, kStages>;
  const AttentionParams& p = l.params;
  const int of_block = static_cast<int>(sizeof(Shared));
  const int rows = p.num_sequences * p.kv.num_kv_heads * l.split.group_tiles;
  const auto plan_of = [&](bool clusters) {
    return decode_plan(l.split, rows, p.max_kv_length, l.device.multiprocessors,
                       2 * (of_block + kReserved) <= l.device.shared_bytes ? 2 : 1, clusters);
  };
  DecodePlan plan = plan_of(l.device.major >= 9);
  int bytes = of_block;
  if (plan.cluster > 0) {
    const int quads = l.split.heads * p.kv.head_size / 4;
    bytes += ClusterInbox::bytes(most_decode_shares(l.split, p.max_kv_length), quads, plan.cluster);
  }
  if (bytes > l.device.block_shared_bytes) {
    plan = plan_of(false);
    bytes = of_block;
  }
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (status != cudaSuccess) {
    return status;
  }
  device::cuda::LaunchSite site = l.site;
  site.cluster = plan.cluster;
  return device::cuda::launch(kernel, dim3(static_cast<unsigned>(plan.blocks)),
                              dim3(kDecodeThreads), static_cast<size_t>(bytes), site, p, plan,
                              l.rope != nullptr ? *l.rope : RopeAppendParams{});
}

// Tiles on their way to a warp: about 24 KB where that fits, as on architectures 80 and 90. Few
// rows are soon read, and linears follow that need first-level cache for their own loads: they get
// less.
template <DType kKv, int kHead, bool kExact>
cudaError_t launch_decode(const DecodeLaunch& l) {
  constexpr int kTileBytes = DecodeTileShape<kKv, kHead>::kTileBytes;
  constexpr int kFew = kTileBytes <= 4096 ? 3 : kTileBytes <= 8192 ? 2 : 1;
  constexpr int kMany = kTileBytes <= 4096 ? 5 : 3;
  const int rows = l.params.num_sequences * l.params.kv.num_kv_heads * l.split.group_tiles;
  if constexpr (kExact) {
    if (rows > l.device.multiprocessors &&
        static_cast<int>(sizeof(DecodeShared<kKv, kHead, kMany>)) <= l.device.block_shared_bytes) {
      return l.rope != nullptr ? launch_decode<kKv, kHead, kExact, true, kMany>(l)
                               : launch_decode<kKv, kHead, kExact, false, kMany>(l);
    }
  }
  return l.rope != nullptr ? launch_decode<kKv, kHead, kExact, true, kFew>(l)
                           : launch_decode<kKv, kHead, kExact, false, kFew>(l);
}

template <DType kKv, int kHead>
cudaError_t launch_decode(const DecodeLaunch& l) {
  return l.params.kv.head_size == kHead ? launch_decode<kKv, kHead, true>(l)
                                        : launch_decode<kKv, kHead, false>(l);
}

// For one type of the cache and any head size.
template <DType kKv>
cudaError_t launch_decode(const AttentionParams& p, const DecodeSplit& split,
                          const RopeAppendParams* rope, const device::cuda::LaunchSite& site) {
  DecodeDevice device;
  const cudaError_t status = device.read();
  if (status != cudaSuccess) {
    return status;
  }
  // A row of a tile has 128 bytes at least.
  constexpr int kSmallest = 128 / KvType<kKv>::kBytes;
  const DecodeLaunch launch{p, split, rope, device, site};
  if (p.kv.head_size <= kSmallest) {
    return launch_decode<kKv, kSmallest>(launch);
  }
  return p.kv.head_size <= 128 ? launch_decode<kKv, 128>(launch) : launch_decode<kKv, 256>(launch);
}

}  // namespace zonda::kernels::cuda
