// A ResponseStream over one request of an Executor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/sequence_text.h"
#include "zonda/llm.h"

namespace zonda::api {

// How the responses of a request become deltas.
struct StreamOptions {
  std::vector<int32_t> prompt_token_ids;
  const text::Tokenizer* tokenizer = nullptr;  // outlives the stream
  bool skip_special_tokens = true;
  std::vector<std::string> stop;
  bool include_stop = false;
  int32_t min_tokens = 0;
  int32_t sequences = 1;
  bool streaming = true;  // false: one delta for each sequence
};

// `id` was enqueued with streaming on if `options` has stop strings. The executor outlives the
// stream.
std::unique_ptr<ResponseStream> make_stream(Executor& executor, RequestId id,
                                            StreamOptions options);

}  // namespace zonda::api
