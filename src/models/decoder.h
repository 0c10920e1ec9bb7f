// The decoder block that Llama-like architectures share: graph and weights from the configuration
// alone. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/architecture.h"

namespace zonda::models {

// norm, attention, add, norm, gated MLP, add; times the layers; final norm, head over the selected
// rows.
graph::Graph build_decoder_graph(const ModelConfig& config);
// The weights of that graph with Hugging Face's and GGUF's usual names.
std::vector<WeightSpec> decoder_weights(const ModelConfig& config);
// The keys that Llama-like config.json files share; architectures read what differs themselves.
Result<ModelConfig> parse_decoder_config(const Json& config);

}  // namespace zonda::models
