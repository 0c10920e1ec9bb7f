// The requests of `zonda run`: from options, and from the lines of a request file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "zonda/llm.h"

namespace zonda::cli {

// A request without its prompt. kInvalidArgument names option and value.
Result<GenerateRequest> request_from_options(const Arguments& arguments);

// All requests of a command line: --input_text, --input_ids and --input_file in this order, each
// --batch_size times. kInvalidArgument also names line and key of the file.
Result<std::vector<GenerateRequest>> collect_requests(const Arguments& arguments);

// One conversation turn with the options' system message in front.
ChatPrompt chat_turn(const Arguments& arguments, std::string_view message);

// A line of a request file, over the options of the command line. `where` names it in messages. A
// line that begins with '{' is a JSON object; any other line is a text.
Result<GenerateRequest> request_from_line(const Arguments& arguments, std::string_view line,
                                          std::string_view where);

}  // namespace zonda::cli
