// A paged cache as a tensor that the copy engine of architecture 90 reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/rope/rope.h"

namespace zonda::kernels::cuda {

// `map` becomes [blocks, keys then values of num_kv_heads, block_size, head_size]; block -1 is
// outside and gives zeros. A box is the block_size slots of one head: of an fp8 cache whole rows
// one after the other, of a 16-bit cache 64 elements of each, with the 128-byte swizzle.
// cudaErrorNotSupported: no such cache (strides in bytes are multiples of 16) or driver.
cudaError_t make_cache_map(const PagedKv& kv, CUtensorMap& map);

}  // namespace zonda::kernels::cuda
