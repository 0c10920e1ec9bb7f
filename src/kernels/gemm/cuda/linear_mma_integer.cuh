// The m16n8k16 kernels of one integer format as tactics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/cuda/linear_mma.cuh"
#include "kernels/gemm/cuda/tactic_lists.h"

namespace zonda::kernels::cuda {

template <class Format, int kTiles, int kTokenTiles, int kStages>
cudaError_t launch_integer(const LinearParams& params, const device::cuda::LaunchSite& site) {
  // Where tokens are many, each block would repeat the norm of all of them.
  if constexpr (kTokenTiles == 1) {
    if (params.norm_weight != nullptr) {
      return launch_linear_mma<Format, kTiles, kTokenTiles, kStages, true>(params, site);
    }
  }
  return params.norm_weight != nullptr
             ? cudaErrorInvalidValue
             : launch_linear_mma<Format, kTiles, kTokenTiles, kStages, false>(params, site);
}

template <class Element, template <class> class Fragments, bool kMinimum, int kTiles,
          int kTokenTiles, int kStages>
cudaError_t run_by_group(const LinearParams& params, const device::cuda::LaunchSite& site) {
  switch (params.packed.type.group_size) {
    case 0:
      return launch_integer<IntegerFormat<Element, Fragments, 0, kMinimum>, kTiles, kTokenTiles,
                            kStages>(params, site);
    case 32:
      return launch_integer<IntegerFormat<Element, Fragments, 4, kMinimum>, kTiles, kTokenTiles,
                            kStages>(params, site);
    case 64:
      return launch_integer<IntegerFormat<Element, Fragments, 2, kMinimum>, kTiles, kTokenTiles,
                            kStages>(params, site);
    case 128:
      return launch_integer<IntegerFormat<Element, Fragments, 1, kMinimum>, kTiles, kTokenTiles,
                            kStages>(params, site);
    default:
      return cudaErrorInvalidValue;
  }
}

// One of the functions that a source file of its own instantiates.
template <class Element, template <class> class Fragments, int kTiles, int kTokenTiles, int kStages>
cudaError_t run_linear_mma_integer(const LinearParams& params,
                                   const device::cuda::LaunchSite& site) {
  if (params.packed.type.has_minimum) {
    return run_by_group<Element, Fragments, true, kTiles, kTokenTiles, kStages>(params, site);
  }
  return run_by_group<Element, Fragments, false, kTiles, kTokenTiles, kStages>(params, site);
}

// Symmetric weights of one group size (chunk groups as in IntegerFormat), which is the one that is
// worth more kernels: one tile a block, gated two tiles of half the steps. The others: two tiles of
// kStages steps.
template <class Element, template <class> class Fragments, int kChunkGroups, int kStages>
cudaError_t run_linear_mma_integer_single(const LinearParams& params,
                                          const device::cuda::LaunchSite& site) {
  using Format = IntegerFormat<Element, Fragments, kChunkGroups, false>;
  constexpr int kGroupSize = kChunkGroups == 0 ? 0 : kChunk / kChunkGroups;
  const WeightType& type = params.packed.type;
  if (type.has_minimum || type.group_size != kGroupSize) {
    return run_linear_mma_integer<Element, Fragments, 2, 1, kStages>(params, site);
  }
  const bool gated =
      params.epilogue == Epilogue::kGatedSilu || params.epilogue == Epilogue::kGatedGeluTanh;
  return gated ? launch_integer<Format, 2, 1, kStages / 2>(params, site)
               : launch_integer<Format, 1, 1, 4>(params, site);
}

}  // namespace zonda::kernels::cuda
