// The program `zonda`.
// SPDX-License-Identifier: Apache-2.0
#include "cli/verb.h"

int main(int argc, char** argv) {
  return zonda::cli::run_program(std::vector<std::string>(argv, argv + argc));
}
