// This machine's processors as a backend.
// SPDX-License-Identifier: Apache-2.0
#include "engine/backend.h"

#include <algorithm>

#include "base/error.h"
#include "engine/convert_weights.h"
#include "engine/cpu/linear_timer.h"
#include "engine/cpu/program.h"

namespace zonda::engine {
namespace {

bool is_float_kv(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

std::string fingerprint_of(device::CpuIsa isa) {
  return fmt::format("cpu; {}; {}", device::cpu_model_name(), device::cpu_isa_name(isa));
}

class CpuDevice final : public OpenDevice {
 public:
  explicit CpuDevice(const EngineOptions& options)
      : pool_(options.threads > 0 ? options.threads : device::available_cpus()),
        stream_(pool_, std::min(device::detect_cpu_isa(), options.max_isa)),
        timer_(stream_) {
    facts_.kernels = device::cpu_isa_name(stream_.isa());
    facts_.fingerprint = fingerprint_of(stream_.isa());
    facts_.threads = pool_.size();
    if (stream_.isa() >= device::CpuIsa::kAvx512Bf16) {
      facts_.cost.bfloat16 = ArithmeticKind::kBFloat16;
    }
  }

  const DeviceFacts& facts() const override { return facts_; }
  Result<kernels::MachineLimits> measure_limits() override {
    return kernels::measure_limits(stream_);
  }
  Result<std::unique_ptr<Program>> load(const EngineFile& file,
                                        const EngineOptions& options) override {
    return cpu::CpuProgram::load(file, options, stream_);
  }

  std::string timing_key() const override {
    return fmt::format("{}; {} threads", facts_.fingerprint, facts_.threads);
  }
  int64_t longest_sample() const override { return 512; }
  bool has_tactic(const WeightType& type, std::string_view name) const override {
    const auto tactics = kernels::linear_tactics(type, stream_.isa());
    return std::any_of(tactics.begin(), tactics.end(),
                       [&](const kernels::LinearTactic& tactic) { return tactic.name == name; });
  }
  std::string default_tactic(const kernels::PackedType& packed, int64_t tokens) const override {
    return std::string(kernels::default_linear_tactic(packed.type, stream_.isa(), tokens).name);
  }
  Result<TacticTime> fastest(const LinearSample& sample, int64_t tokens, int64_t& count) override {
    return timer_.fastest(sample, tokens, count);
  }

 private:
  device::ThreadPool pool_;
  device::Stream stream_;
  cpu::LinearTimer timer_;
  DeviceFacts facts_;
};

class CpuBackend final : public Backend {
 public:
  device::DeviceKind kind() const override { return device::DeviceKind::kCpu; }
  bool present() const override { return true; }
  Result<std::string> fingerprint() const override {
    return fingerprint_of(device::detect_cpu_isa());
  }
  // No processor here multiplies fp8: scale * q in float32, then one rounding to bfloat16.
  WeightType stored_type(const WeightType& source, DType) const override {
    return source.format == WeightFormat::kFloat8E4M3
               ? WeightType{WeightFormat::kBFloat16, source.rows, source.cols, 0, false}
               : source;
  }
  DType activation_dtype(DType) const override { return DType::kFloat32; }
  DType kv_dtype(DType model) const override { return model; }
  bool supports_kv_dtype(DType dtype) const override { return is_float_kv(dtype); }
  int64_t packed_bytes(const kernels::PackedType& packed) const override {
    return kernels::packed_bytes(packed);
  }
  Result<void> pack(const kernels::PackedType& packed, std::span<const WeightView> sources,
                    std::byte* out) const override {
    const Result<ConvertedWeights> converted = convert_weights(sources, packed.type.format);
    return converted ? kernels::pack_weights(packed, converted->views, out)
                     : Result<void>(converted.error());
  }
  Result<std::unique_ptr<OpenDevice>> open(const EngineOptions& options) const override {
    return std::unique_ptr<OpenDevice>(std::make_unique<CpuDevice>(options));
  }
};

}  // namespace

const Backend* cpu_backend() {
  static const CpuBackend backend;
  return &backend;
}

}  // namespace zonda::engine
