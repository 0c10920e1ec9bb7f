// Any bytes as tokenizer.json: refused, or a tokenizer that encodes and decodes text.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = zonda::text::Tokenizer::from_json(json, "");
  if (!tokenizer.ok()) {
    return 0;
  }
  // kCapacity is a legal answer: a pattern of the file may give up on the text.
  const auto ids = (*tokenizer)->encode("hello the 123 \xc3\xa9 aaaaaaaaaaaaaaaaaaaaaaaa!\n");
  if (!ids.ok()) {
    return 0;
  }
  for (const int32_t id : *ids) {
    if (id < 0 || id >= (*tokenizer)->vocab_size()) {
      std::abort();
    }
  }
  (void)(*tokenizer)->decode(*ids, false);
  return 0;
}
