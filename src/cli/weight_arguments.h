// Reads the options of options/shared_options.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/arguments.h"
#include "zonda/convert.h"

namespace zonda::cli {

// dtype, qformat, group_size, asymmetric and exclude_modules; the older --use_weight_only spelling
// included. kInvalidArgument for options that contradict each other.
Result<convert::ConvertOptions> weight_arguments(const Arguments& arguments);

}  // namespace zonda::cli
