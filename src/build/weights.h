// Packs the weights of a lowered plan into an engine file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/checkpoint.h"
#include "engine/engine_file.h"
#include "engine/plan.h"

namespace zonda::build {

// Matrix by matrix, so that memory holds one packed matrix at a time; sets the offsets of the
// plan's tables.
Result<void> write_weights(const checkpoint::Checkpoint& checkpoint, engine::EnginePlan& plan,
                           engine::EngineFileWriter& writer);

}  // namespace zonda::build
