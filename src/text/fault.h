// An Error on its way through this module's own code; the public entry points turn it into a
// Result. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "zonda/error.h"

namespace zonda::text {

// Thrown, and caught before any public function returns.
struct Fault {
  Error error;
};

template <typename T>
T value_or_fault(Result<T> result) {
  if (!result.ok()) {
    throw Fault{result.error()};
  }
  return std::move(result).value();
}
inline void throw_if_failed(const Result<void>& result) {
  if (!result.ok()) {
    throw Fault{result.error()};
  }
}

}  // namespace zonda::text
