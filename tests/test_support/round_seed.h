// Seeds of random tests: the same in every plain run, others in each shuffled round of a soak.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

namespace zonda::test {

// Without --gtest_random_seed: fixed seeds, whose statistics are known.
inline bool is_plain_run() { return testing::UnitTest::GetInstance()->random_seed() == 0; }

// `seed` in a plain run; with --gtest_shuffle --gtest_random_seed=N moved by a multiple of N that
// no test's own range of seeds reaches.
inline uint32_t round_seed(uint32_t seed) {
  return seed + 100003u * static_cast<uint32_t>(testing::UnitTest::GetInstance()->random_seed());
}

}  // namespace zonda::test
