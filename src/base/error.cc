// Names of the error codes, and the end of a failed CHECK.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <cstdio>

namespace zonda {

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kCorrupt:
      return "corrupt data";
    case ErrorCode::kCapacity:
      return "over capacity";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kIo:
      return "i/o error";
    case ErrorCode::kInternal:
      return "internal error";
  }
  return "unknown error";
}

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace zonda
