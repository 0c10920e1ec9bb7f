// Any bytes as a GGUF file: refused, or every tensor and string lies inside the image.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "checkpoint/gguf.h"

namespace {

using zonda::checkpoint::GgufArray;
using zonda::checkpoint::GgufValue;

void check_inside(const void* begin, size_t bytes, std::span<const std::byte> image) {
  const auto* first = static_cast<const std::byte*>(begin);
  if (bytes != 0 && (first < image.data() || first + bytes > image.data() + image.size())) {
    std::abort();
  }
}

void check_value(const GgufValue& value, std::span<const std::byte> image) {
  if (const auto* text = std::get_if<std::string_view>(&value.data)) {
    check_inside(text->data(), text->size(), image);
  } else if (const auto* array = std::get_if<GgufArray>(&value.data)) {
    for (const GgufValue& entry : array->values) {
      check_value(entry, image);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> image(reinterpret_cast<const std::byte*>(data), size);
  zonda::checkpoint::GgufMetadata metadata;
  zonda::checkpoint::GgufTensors tensors;
  if (!zonda::checkpoint::parse_gguf(image, "input", metadata, tensors).ok()) {
    return 0;
  }
  for (const auto& [name, tensor] : tensors) {
    check_inside(tensor.bytes.data(), tensor.bytes.size(), image);
  }
  for (const auto& [key, value] : metadata) {
    check_value(value, image);
  }
  return 0;
}
