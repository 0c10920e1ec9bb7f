// `zonda version`.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "api/version.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace zonda::cli {
namespace {

constexpr Option kRows[] = {{.name = "json", .help = "As a JSON object."}};

}  // namespace

OptionTable version_options() { return {{"output", kRows}, {"general", common_options()}}; }

int run_version(const Arguments& arguments) {
  if (arguments.flag("json")) {
    print("{{\"version\":\"{}\"}}\n", api::kVersion);
  } else {
    print("zonda {}\n", api::kVersion);
  }
  return kExitDone;
}

}  // namespace zonda::cli
