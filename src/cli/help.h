// Help texts, made from the option tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "cli/verb.h"

namespace zonda::cli {

// The list of verbs.
std::string program_help();
// `topic` "enable": the options that do something; "all": also those accepted or refused for
// compatibility; any other word: the options whose name or text contains it.
std::string verb_help(const Verb& verb, std::string_view topic);

// All options of all verbs, as the second half of docs/cli.md.
std::string options_markdown();

}  // namespace zonda::cli
