// Results on stdout; a reader that went away is a fact to ask for, not an exception.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace zonda::cli {

void print_text(std::string_view text);
template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}
// The text with control characters and bytes that are no UTF-8 written as "\\x1b": for messages
// that may quote a file.
std::string printable(std::string_view text);
// Hands on what is buffered. False once stdout cannot be written any more.
bool flush_output();

}  // namespace zonda::cli
