// The table of architectures; a new one adds its line here.
// SPDX-License-Identifier: Apache-2.0
#include "models/architecture.h"

#include <array>

#include "base/error.h"
#include "models/llama.h"

namespace zonda::models {
namespace {

Error unknown(std::string_view kind, std::string_view name,
              std::string_view Architecture::*member) {
  std::string known;
  for (const Architecture& architecture : architectures()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture.*member);
  }
  return unsupported("[models] {} \"{}\" is not supported; this version knows {}.", kind, name,
                     known);
}

Result<const Architecture*> find(std::string_view kind, std::string_view name,
                                 std::string_view Architecture::*member) {
  for (const Architecture& architecture : architectures()) {
    if (architecture.*member == name) {
      return &architecture;
    }
  }
  return unknown(kind, name, member);
}

}  // namespace

std::span<const Architecture> architectures() {
  static const std::array<Architecture, 1> table = {kLlama};
  return table;
}

Result<const Architecture*> find_architecture(std::string_view hf_class) {
  return find("architecture", hf_class, &Architecture::hf_class);
}

Result<const Architecture*> find_gguf_architecture(std::string_view gguf_name) {
  return find("general.architecture", gguf_name, &Architecture::gguf_name);
}

bool ignorable_tensor(std::string_view hf_name) { return hf_name.ends_with("rotary_emb.inv_freq"); }

}  // namespace zonda::models
