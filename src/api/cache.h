// A folder of finished steps, shared by all processes of a user: each entry is made once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "zonda/error.h"

namespace zonda::api {

// The cache folder of these options: `configured`, or base's cache_folder(). kInvalidArgument if
// neither is set.
Result<std::string> cache_root(const std::string& configured);

// Returns "<root>/<name>" after calling `make` with it if it does not exist. `make` must let the
// folder appear only when it is complete. Whoever asks for the same entry meanwhile, in this
// process or another one, waits and then finds it.
Result<std::string> cached_folder(
    const std::string& root, const std::string& name,
    const std::function<Result<void>(const std::string& folder)>& make);

}  // namespace zonda::api
