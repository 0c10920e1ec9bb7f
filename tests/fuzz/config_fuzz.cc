// Any bytes as config.json, of Hugging Face and of a checkpoint: refused, or good enough to build a
// graph from. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "models/architecture.h"

namespace {

// A config that passed validate() must give weights and a graph; large ones only cost time.
void use(const zonda::models::Architecture& architecture,
         const zonda::models::ModelConfig& config) {
  if (!zonda::models::validate(config).ok() || config.num_hidden_layers > 4) {
    return;
  }
  if (architecture.weights(config).empty()) {
    std::abort();
  }
  (void)architecture.build_graph(config);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = zonda::parse_json({reinterpret_cast<const char*>(data), size}, "config.json");
  if (!json.ok()) {
    return 0;
  }
  for (const zonda::models::Architecture& architecture : zonda::models::architectures()) {
    if (const auto config = architecture.parse_hf_config(*json); config.ok()) {
      use(architecture, *config);
      // What a checkpoint stores must read back.
      const std::string text = zonda::dump_json(zonda::models::to_checkpoint_json(*config));
      const auto stored = zonda::parse_json(text, "checkpoint");
      if (!stored.ok() || (zonda::models::validate(*config).ok() &&
                           !zonda::models::parse_checkpoint_config(*stored).ok())) {
        std::abort();
      }
    }
  }
  (void)zonda::models::parse_checkpoint_config(*json);
  return 0;
}
