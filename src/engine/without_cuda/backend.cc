// Stands in for engine/cuda in builds without it.
// SPDX-License-Identifier: Apache-2.0
#include "engine/backend.h"

namespace zonda::engine {

const Backend* cuda_backend() { return nullptr; }

}  // namespace zonda::engine
