// Chat templates: the Jinja dialect in which models describe how a conversation becomes a prompt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/segment.h"
#include "zonda/error.h"

namespace zonda::text {

struct RenderOptions {
  // What strftime_now() shows, in local time; without it that function fails.
  std::optional<std::tm> now;
  // Variables that hold special tokens of the model, set by us and never by a request: their text
  // counts as the template's.
  std::vector<std::string> trusted_variables = {"bos_token", "eos_token", "unk_token", "pad_token",
                                                "sep_token", "cls_token", "mask_token"};
  size_t max_output_bytes = size_t{64} << 20;
  size_t max_steps = 5'000'000;             // statements and expressions; half a second
  size_t max_work_bytes = size_t{1} << 30;  // of all values made on the way
};

// A parsed template; immutable, render() may run on many threads at once.
class ChatTemplate {
 public:
  // Behaves as jinja2 in the environment that transformers sets up: trim_blocks, lstrip_blocks,
  // loop controls, immutable values, tojson without HTML escapes, `generation` blocks.
  // kInvalidArgument with line and column for wrong syntax, kUnsupported for tags that load other
  // templates.
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // The prompt in segments whose texts, joined, are the rendered text; neighbours differ in
  // from_template. `variables` is an object: messages, add_generation_prompt, tools, ...
  // kInvalidArgument with line, column and, for raise_exception, the template's own words;
  // kCapacity beyond a limit.
  Result<std::vector<Segment>> render(const OrderedJson& variables,
                                      const RenderOptions& options = {}) const;

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
};

// The texts of the segments, joined.
std::string join_segments(const std::vector<Segment>& segments);

}  // namespace zonda::text
