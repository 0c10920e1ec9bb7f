// Where the weights of an engine come from: a checkpoint, or a random draw by the device at load.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/weight_format.h"
#include "checkpoint/checkpoint.h"
#include "engine/backend.h"
#include "engine/engine_file.h"
#include "models/config.h"

namespace zonda::build {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const std::string& folder() const = 0;
  // The checkpoint's config.json, as it stands in the engine's.
  virtual const OrderedJson& config() const = 0;
  // Of a matrix; kNotFound names folder and tensor.
  virtual Result<WeightType> type(std::string_view name) const = 0;
  // Elements of a float32 vector.
  virtual Result<int64_t> vector_size(std::string_view name) const = 0;
  // Puts the plan's weights into the file and sets the offsets of the plan's tables. Memory holds
  // one packed matrix at a time.
  virtual Result<void> write(engine::EnginePlan& plan, const engine::Backend& backend,
                             engine::EngineFileWriter& writer) const = 0;
};

// The weights of a checkpoint folder.
Result<std::unique_ptr<WeightSource>> open_checkpoint(const std::string& folder);
// Weights that the device draws, a function of `seed`, for the config.json of `folder`: a
// checkpoint's or a Hugging Face folder's. Norm weights are 1 and biases 0.
Result<std::unique_ptr<WeightSource>> draw_weights(const std::string& folder, int64_t seed);

}  // namespace zonda::build
