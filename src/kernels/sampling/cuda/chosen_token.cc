// From the ids of the device to tokens and errors.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "kernels/sampling/cuda/sample.h"

namespace zonda::kernels::cuda {

Result<int32_t> chosen_token(int32_t id) {
  if (id >= 0) {
    return id;
  }
  if (id == kNoTokenLeft) {
    return invalid_argument("[sample] all tokens are banned.");
  }
  return internal_error("[sample] the logit of token {} is not a finite number.",
                        not_finite_id(id));
}

}  // namespace zonda::kernels::cuda
