// A conversation on a terminal or a pipe: one user message a line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

#include "cli/arguments.h"
#include "zonda/llm.h"

namespace zonda::cli {

// Reads messages until the end of `input`, prints each answer as it comes, keeps the history. The
// exit code; errors of a request end it.
Result<int> converse(Llm& llm, const Arguments& arguments, std::istream& input);

}  // namespace zonda::cli
