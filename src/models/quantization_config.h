// "quantization_config" of a Hugging Face config.json: which quantised folders can be read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/config.h"

namespace zonda::models {

// fp8 (e4m3) weights with a scale of the tensor or of each row, as compressed-tensors
// ("float-quantized"), modelopt ("FP8"), "fp8" without blocks, and "fbgemm_fp8" write them. Scales
// of activations that such a file brings are not used: they are found token by token.
// kUnsupported names the key that rules the folder out.
Result<QuantizationConfig> parse_hf_quantization(const Json& json);

}  // namespace zonda::models
