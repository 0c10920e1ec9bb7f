// The streaming kernels of one integer format by group size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/cuda/linear_stream.cuh"

namespace zonda::kernels::cuda {

template <class Element, template <class> class Fragments, bool kMinimum>
cudaError_t run_stream_by_group(const LinearParams& params, const device::cuda::LaunchSite& site,
                                const StreamChoice& choice) {
  switch (params.packed.type.group_size) {
    case 0:
      return launch_linear_stream<IntegerFormat<Element, Fragments, 0, kMinimum>>(params, site,
                                                                                  choice);
    case 32:
      return launch_linear_stream<IntegerFormat<Element, Fragments, 4, kMinimum>>(params, site,
                                                                                  choice);
    case 64:
      return launch_linear_stream<IntegerFormat<Element, Fragments, 2, kMinimum>>(params, site,
                                                                                  choice);
    case 128:
      return launch_linear_stream<IntegerFormat<Element, Fragments, 1, kMinimum>>(params, site,
                                                                                  choice);
    default:
      return cudaErrorNotSupported;
  }
}

template <class Element, template <class> class Fragments>
cudaError_t run_stream_integer(const LinearParams& params, const device::cuda::LaunchSite& site,
                               const StreamChoice& choice) {
  return params.packed.type.has_minimum
             ? run_stream_by_group<Element, Fragments, true>(params, site, choice)
             : run_stream_by_group<Element, Fragments, false>(params, site, choice);
}

}  // namespace zonda::kernels::cuda
