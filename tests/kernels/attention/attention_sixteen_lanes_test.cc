// Law of attention's sixteen-lane tiles: the shape that AVX-512 has gives the bits of the
// reference. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/attention/attention_scene.h"
#include "kernels/attention/cpu/attention_driver.h"
#include "kernels/attention/cpu/attention_range_impl.h"
#include "kernels/sixteen_lanes.h"

namespace zonda::kernels {

// Larger register tiles differ only in rows, which AVX2 runs, and take minutes to compile here.
template <>
inline constexpr int kMicroRows<SixteenLanes> = 2;

namespace {

TEST(Attention, SixteenLaneTilesGiveTheBitsOfTheReference) {
  constexpr AttentionKernel kKernel = {reduce_range<SixteenLanes>, join_row<SixteenLanes>};
  std::mt19937 random(3);
  device::ThreadPool pool(2);
  for (int i = 0; i < 8; ++i) {
    const HeadShape shape = random_shape(random);
    Scene scene(shape, random_chunks(random), random_layout(random));
    const auto run = [&](const AttentionParams& params) {
      attention_driver(params, kKernel, pool);
    };
    ASSERT_EQ(scene.run(run, pool.size()), scene.run_reference());
  }
}

}  // namespace
}  // namespace zonda::kernels
