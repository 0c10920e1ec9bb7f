// A paged cache as a tensor that the copy engine of architecture 90 reads.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cuda/cache_map.h"

#include <cudaTypedefs.h>

namespace zonda::kernels::cuda {
namespace {

// From the driver at run time: this program is not linked to it.
PFN_cuTensorMapEncodeTiled_v12000 encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                              12000, cudaEnableDefault, &found);
  return status == cudaSuccess && found == cudaDriverEntryPointSuccess
             ? reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function)
             : nullptr;
}

}  // namespace

cudaError_t make_cache_map(const PagedKv& kv, CUtensorMap& map) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = encoder();
  if (encode == nullptr) {
    return cudaErrorNotSupported;
  }
  constexpr cuuint64_t kBlocks = 1 << 24;  // the pool's size is not known here; ids are valid
  const bool bytes = kv.dtype == DType::kFloat8E4M3;
  const auto size = static_cast<cuuint64_t>(dtype_size(kv.dtype));
  const auto slots = static_cast<cuuint32_t>(kv.block_size);
  const auto row = static_cast<cuuint64_t>(kv.head_size);
  const cuuint64_t sizes[4] = {row, slots, static_cast<cuuint64_t>(kv.num_kv_heads) * 2, kBlocks};
  const cuuint64_t strides[3] = {row * size, row * size * slots,
                                 static_cast<cuuint64_t>(kv.block_stride) * size};
  const cuuint32_t box[4] = {bytes ? static_cast<cuuint32_t>(row) : 64, slots, 1, 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const CUresult status =
      encode(&map, bytes ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_UINT16, 4,
             kv.base, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             bytes ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return status == CUDA_SUCCESS ? cudaSuccess : cudaErrorNotSupported;
}

}  // namespace zonda::kernels::cuda
