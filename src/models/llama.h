// The Llama entry of the architecture table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/architecture.h"

namespace zonda::models {

extern const Architecture kLlama;

}  // namespace zonda::models
