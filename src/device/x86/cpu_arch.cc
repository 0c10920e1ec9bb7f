// x86-64: CPUID for what the processor can do, XGETBV and arch_prctl for what the system saves.
// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_arch.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace zonda::device {
namespace {

struct CpuidRegisters {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero if the processor does not know the leaf.
CpuidRegisters cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  CpuidRegisters r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) {
    return {};
  }
  return r;
}

bool has_all(uint32_t value, std::initializer_list<int> bits) {
  for (const int bit : bits) {
    if ((value >> bit & 1u) == 0) {
      return false;
    }
  }
  return true;
}

// Which register states the system saves on a context switch; only valid if CPUID reports OSXSAVE.
uint64_t saved_register_states() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Linux grants the 8 KB tile state to a process only on request.
bool request_tile_state() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
}

}  // namespace

CpuIsa probe_cpu_isa() {
  constexpr uint64_t kAvxStates = 0x6;      // xmm, ymm
  constexpr uint64_t kAvx512States = 0xe0;  // masks, upper halves of zmm, zmm16-31
  constexpr uint64_t kTileStates = 0x60000;
  const CpuidRegisters basic = cpuid(1);
  const CpuidRegisters extended = cpuid(7, 0);
  // FMA 12, OSXSAVE 27, AVX 28, F16C 29.
  if (!has_all(basic.ecx, {12, 27, 28, 29}) || !has_all(extended.ebx, {5})) {
    return CpuIsa::kPortable;
  }
  const uint64_t states = saved_register_states();
  if ((states & kAvxStates) != kAvxStates) {
    return CpuIsa::kPortable;
  }
  // F 16, DQ 17, BW 30, VL 31; VNNI 11.
  if ((states & kAvx512States) != kAvx512States || !has_all(extended.ebx, {16, 17, 30, 31}) ||
      !has_all(extended.ecx, {11})) {
    return CpuIsa::kAvx2;
  }
  if (!has_all(cpuid(7, 1).eax, {5})) {  // AVX512_BF16
    return CpuIsa::kAvx512;
  }
  // AMX: BF16 22, TILE 24, INT8 25.
  const bool tiles = has_all(extended.edx, {22, 24, 25}) && (states & kTileStates) == kTileStates;
  return tiles && request_tile_state() ? CpuIsa::kAmx : CpuIsa::kAvx512Bf16;
}

std::string probe_cpu_model_name() {
  constexpr uint32_t kFirstNameLeaf = 0x80000002;
  constexpr uint32_t kNameLeaves = 3;
  if (__get_cpuid_max(0x80000000, nullptr) < kFirstNameLeaf + kNameLeaves - 1) {
    return {};
  }
  std::array<char, kNameLeaves * sizeof(CpuidRegisters) + 1> text{};
  for (uint32_t i = 0; i < kNameLeaves; ++i) {
    const CpuidRegisters r = cpuid(kFirstNameLeaf + i);
    std::memcpy(text.data() + i * sizeof(r), &r, sizeof(r));
  }
  const std::string name(text.data());
  const size_t begin = name.find_first_not_of(' ');
  return begin == std::string::npos ? std::string{}
                                    : name.substr(begin, name.find_last_not_of(' ') - begin + 1);
}

void cpu_relax() { __builtin_ia32_pause(); }

}  // namespace zonda::device
