// The main program of CUDA tests: --require_gpu makes a machine without a GPU a failure.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "device/cuda/gpu_test.h"

namespace zonda::test {
bool gpu_required = false;
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    zonda::test::gpu_required |= std::strcmp(argv[i], "--require_gpu") == 0;
  }
  return RUN_ALL_TESTS();
}
