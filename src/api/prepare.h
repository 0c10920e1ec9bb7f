// Does the steps that a source lacks, into the cache: model -> checkpoint -> engine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "api/source.h"
#include "zonda/build.h"
#include "zonda/convert.h"
#include "zonda/error.h"
#include "zonda/llm.h"

namespace zonda::api {

// The folder of a checkpoint made of a model folder or GGUF file; a checkpoint is returned as it
// is. Of `options` only the fields that change the checkpoint count, and progress and workers are
// used.
Result<std::string> prepare_checkpoint(const ModelSource& source, const std::string& cache_dir,
                                       const convert::ConvertOptions& options);

// The engine folder (or file) to run for `source`.
Result<std::string> prepare_engine(const ModelSource& source, const LlmOptions& options);

}  // namespace zonda::api
