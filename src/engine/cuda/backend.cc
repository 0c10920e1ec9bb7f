// A CUDA device as a backend.
// SPDX-License-Identifier: Apache-2.0
#include "engine/backend.h"

#include <algorithm>

#include "base/error.h"
#include "device/cuda/properties.h"
#include "device/cuda/stream.h"
#include "engine/convert_weights.h"
#include "engine/cuda/limits.h"
#include "engine/cuda/linear_timer.h"
#include "engine/cuda/program.h"
#include "engine/fusions.h"
#include "kernels/gemm/cuda/linear.h"

namespace zonda::engine {
namespace {

constexpr int kLeastCapability = 80;

std::string fingerprint_of(const device::cuda::DeviceProperties& properties) {
  return fmt::format("cuda; {}; sm_{}", properties.name, properties.compute_capability);
}

// The device that CUDA numbers 0; CUDA_VISIBLE_DEVICES chooses which one that is.
Result<device::cuda::DeviceProperties> first_device() {
  const Result<device::cuda::DeviceProperties> properties = device::cuda::query_device(0);
  if (properties && properties->compute_capability < kLeastCapability) {
    return unsupported("[cuda] {} has compute capability {}.{}; 8.0 or newer is needed.",
                       properties->name, properties->compute_capability / 10,
                       properties->compute_capability % 10);
  }
  return properties;
}

class CudaDevice final : public OpenDevice {
 public:
  CudaDevice(device::cuda::DeviceProperties properties, device::cuda::Stream stream)
      : properties_(std::move(properties)),
        stream_(std::move(stream)),
        timer_(properties_, stream_) {
    facts_.kernels = fmt::format("sm_{}", properties_.compute_capability);
    facts_.fingerprint = fingerprint_of(properties_);
    facts_.cost.activation_bytes = 2.0;
    facts_.cost.float32 = facts_.cost.float16 = facts_.cost.bfloat16 = ArithmeticKind::kBFloat16;
    facts_.cost.integer = facts_.cost.attention = ArithmeticKind::kBFloat16;
  }

  const DeviceFacts& facts() const override { return facts_; }
  Result<kernels::MachineLimits> measure_limits() override {
    return cuda::measure_limits(properties_, stream_);
  }
  Result<std::unique_ptr<Program>> load(const EngineFile& file,
                                        const EngineOptions& options) override {
    return cuda::CudaProgram::load(file, options, properties_);
  }

  std::string timing_key() const override {
    return fmt::format("{}; CUDA {}; driver {}", facts_.fingerprint, properties_.runtime_version,
                       properties_.driver_version);
  }
  int64_t longest_sample() const override { return 2048; }
  bool has_tactic(const WeightType& type, std::string_view name) const override {
    const bool fused = name.ends_with(kFusedNorm);
    name.remove_suffix(fused ? kFusedNorm.size() : 0);
    const auto tactics = kernels::cuda::linear_tactics(type, properties_.compute_capability);
    return std::any_of(tactics.begin(), tactics.end(),
                       [&](const kernels::cuda::LinearTactic& tactic) {
                         return tactic.name == name && (tactic.fuses_norm || !fused);
                       });
  }
  std::string default_tactic(const kernels::PackedType& packed, int64_t tokens) const override {
    return std::string(
        kernels::cuda::default_linear_tactic(packed.type, properties_.compute_capability, tokens)
            .name);
  }
  Result<TacticTime> fastest(const LinearSample& sample, int64_t tokens, int64_t& count) override {
    return timer_.fastest(sample, tokens, count);
  }

 private:
  device::cuda::DeviceProperties properties_;
  device::cuda::Stream stream_;
  cuda::LinearTimer timer_;
  DeviceFacts facts_;
};

class CudaBackend final : public Backend {
 public:
  device::DeviceKind kind() const override { return device::DeviceKind::kCuda; }
  bool present() const override { return first_device().ok(); }
  Result<std::string> fingerprint() const override {
    const auto properties = first_device();
    return properties ? Result<std::string>(fingerprint_of(*properties)) : properties.error();
  }

  WeightType stored_type(const WeightType& source, DType model) const override {
    WeightType stored = source;
    stored.per_tensor = false;  // fp8 keeps a scale of each row
    if (!is_quantized(source.format)) {
      stored.format = activation_dtype(model) == DType::kFloat16 ? WeightFormat::kFloat16
                                                                 : WeightFormat::kBFloat16;
    }
    return stored;
  }
  DType activation_dtype(DType model) const override {
    return model == DType::kFloat16 ? DType::kFloat16 : DType::kBFloat16;
  }
  DType kv_dtype(DType model) const override { return activation_dtype(model); }
  bool supports_kv_dtype(DType dtype) const override {
    return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat8E4M3;
  }

  int64_t packed_bytes(const kernels::PackedType& packed) const override {
    return kernels::cuda::packed_bytes(packed);
  }
  Result<void> pack(const kernels::PackedType& packed, std::span<const WeightView> sources,
                    std::byte* out) const override {
    const Result<ConvertedWeights> converted = convert_weights(sources, packed.type.format);
    return converted ? kernels::cuda::pack_weights(packed, converted->views, out)
                     : Result<void>(converted.error());
  }

  Result<std::unique_ptr<OpenDevice>> open(const EngineOptions&) const override {
    Result<device::cuda::DeviceProperties> properties = first_device();
    if (!properties) {
      return properties.error();
    }
    if (Result<void> used = device::cuda::use_device(0); !used.ok()) {
      return used.error();
    }
    Result<device::cuda::Stream> stream = device::cuda::Stream::create();
    if (!stream) {
      return stream.error();
    }
    return std::unique_ptr<OpenDevice>(
        std::make_unique<CudaDevice>(std::move(*properties), std::move(*stream)));
  }
};

}  // namespace

const Backend* cuda_backend() {
  static const CudaBackend backend;
  return &backend;
}

}  // namespace zonda::engine
