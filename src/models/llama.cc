// Llama 2, 3 and the models that share its class; also SmolLM2.
// SPDX-License-Identifier: Apache-2.0
#include "models/llama.h"

#include "models/decoder.h"
#include "models/fields.h"

namespace zonda::models {
namespace {

Result<ModelConfig> parse_llama(const Json& json) {
  Result<ModelConfig> config = parse_decoder_config(json);
  if (!config.ok()) {
    return config.error();
  }
  FieldReader reader(json, "config.json");
  config->architecture = "LlamaForCausalLM";
  reader.boolean("attention_bias", config->attn_bias);
  config->attn_dense_bias = config->attn_bias;
  reader.boolean("mlp_bias", config->mlp_bias);
  if (reader.has("pretraining_tp") && reader.at("pretraining_tp") != 1) {
    reader.fail("\"pretraining_tp\" other than 1 is not supported");
  }
  if (const Result<void> read = reader.result(); !read.ok()) {
    return read.error();
  }
  if (const Result<void> valid = validate(*config); !valid.ok()) {
    return valid.error();
  }
  return config;
}

}  // namespace

const Architecture kLlama = {"LlamaForCausalLM", "llama", parse_llama, decoder_weights,
                             build_decoder_graph};

}  // namespace zonda::models
