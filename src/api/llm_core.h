// An Llm over any Executor and any text parts: what Llm::load assembles, and tests fake.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "api/model_text.h"
#include "zonda/llm.h"

namespace zonda::api {

std::unique_ptr<Llm> make_llm(std::unique_ptr<Executor> executor, ModelText text, LlmInfo info);

}  // namespace zonda::api
