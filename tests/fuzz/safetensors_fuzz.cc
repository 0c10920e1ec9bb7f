// Any bytes as a safetensors file: refused, or every view lies inside the image.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> image(reinterpret_cast<const std::byte*>(data), size);
  zonda::checkpoint::TensorMap tensors;
  zonda::checkpoint::MetadataMap metadata;
  if (!zonda::checkpoint::parse_safetensors(image, "input", tensors, metadata).ok()) {
    return 0;
  }
  for (const auto& [name, view] : tensors) {
    const bool inside = view.bytes.empty() ||
                        (view.bytes.data() >= image.data() &&
                         view.bytes.data() + view.bytes.size() <= image.data() + image.size());
    if (!inside) {
      std::abort();
    }
  }
  return 0;
}
