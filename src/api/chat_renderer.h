// The chat template of a model's files as a ChatRenderer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "api/model_text.h"

namespace zonda::api {

// Null if the files hold no template.
Result<std::unique_ptr<ChatRenderer>> make_chat_renderer(const TextFiles& files);

}  // namespace zonda::api
