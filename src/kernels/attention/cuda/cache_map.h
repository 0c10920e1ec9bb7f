// A paged cache as a tensor that the copy engine of architecture 90 reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/rope/rope.h"

namespace zonda::kernels::cuda {

// `map` becomes [blocks, keys then values of num_kv_heads, block_size, head_size] of 16-bit values.
// A box is 64 elements of the block_size slots of one head, its 128-byte rows swizzled; block -1 is
// outside and gives zeros. cudaErrorNotSupported: no such cache or driver.
cudaError_t make_cache_map(const PagedKv& kv, CUtensorMap& map);

}  // namespace zonda::kernels::cuda
