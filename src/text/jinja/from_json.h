// Variables of a template from JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "text/jinja/value.h"

namespace zonda::text::jinja {

// Strings become input, except those under a key "role" that are one of the usual roles: such a
// word cannot spell a control token by itself, but templates build tokens like <|user|> around it.
// `from_template`: all strings count as the template's.
Value from_json(const OrderedJson& json, bool from_template);

}  // namespace zonda::text::jinja
