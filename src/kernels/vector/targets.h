// Which processor family this build is for: dispatch refers to no kernel that was left out of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace zonda::kernels {

// Files named *_avx2.cc and *_avx512.cc are part of x86-64 builds only
// (src/kernels/CMakeLists.txt).
#if defined(__x86_64__)
inline constexpr bool kHasX86Kernels = true;
#else
inline constexpr bool kHasX86Kernels = false;
#endif

}  // namespace zonda::kernels
