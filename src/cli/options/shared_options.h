// Option rows that several verbs share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "cli/option.h"

namespace zonda::cli {

// --dtype, --qformat, --group_size, ... : how the weights of a checkpoint are made.
std::span<const Option> weight_options();
// Quantisation methods of TensorRT-LLM that are refused, and calibration, which nothing here needs.
std::span<const Option> quantization_compatibility();
// --tp_size, --pp_size, ...
std::span<const Option> parallel_compatibility();
// Where a prepared model comes from: --tokenizer_dir, --cache_dir, limits of an engine made here.
std::span<const Option> source_options();

}  // namespace zonda::cli
