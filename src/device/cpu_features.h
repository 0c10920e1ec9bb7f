// Instruction sets of this processor, as far as kernels choose by them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "zonda/error.h"

namespace zonda::device {

// Ordered: each level includes the ones before it. kAmx means the operating system granted the tile
// state too.
enum class CpuIsa : uint8_t { kPortable, kAvx2, kAvx512, kAvx512Bf16, kAmx };

std::string_view cpu_isa_name(
    CpuIsa isa);  // "portable", "avx2", "avx512-vnni", "avx512-bf16", "amx"
Result<CpuIsa> parse_cpu_isa(std::string_view name);

// The best level this machine can run (avx2 needs FMA and F16C; avx512 needs F, BW, DQ, VL and
// VNNI). Constant.
CpuIsa detect_cpu_isa();
// The processor's name as it reports itself, "unknown" if it does not.
std::string cpu_model_name();
// Logical processors this process may run on (its affinity mask), at least 1.
int available_cpus();

}  // namespace zonda::device
