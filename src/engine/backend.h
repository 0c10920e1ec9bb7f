// A kind of device: how it stores weights, how its kernels are timed, and the program that runs a
// plan on it. An absent backend is an absent folder and a null entry of find_backend().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "device/device.h"
#include "engine/cost.h"
#include "engine/engine.h"
#include "engine/engine_file.h"
#include "engine/tactics.h"
#include "kernels/probe/probe.h"

namespace zonda::engine {

// A plan with its weights resident and its cache allocated. One step at a time.
class Program {
 public:
  virtual ~Program() = default;
  virtual int64_t max_num_tokens() const = 0;
  virtual int32_t num_kv_blocks() const = 0;
  virtual int64_t activation_bytes() const = 0;
  // `inputs` obey the laws of Engine::run, which checks them. Logits or tokens as they ask for.
  virtual Result<StepOutputs> run(const BatchInputs& inputs, const CallTimer& timer) = 0;
  virtual void copy_block(int32_t source, int32_t destination) = 0;
};

// A device that is in use. Outlives the programs loaded on it.
class OpenDevice : public TacticSource {
 public:
  virtual const DeviceFacts& facts() const = 0;
  // About a second of measuring.
  virtual Result<kernels::MachineLimits> measure_limits() = 0;
  // `file` outlives the program; its plan names tactics that this device has.
  virtual Result<std::unique_ptr<Program>> load(const EngineFile& file,
                                                const EngineOptions& options) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual device::DeviceKind kind() const = 0;
  // Whether this machine has such a device.
  virtual bool present() const = 0;
  // Of the device that open() would use.
  virtual Result<std::string> fingerprint() const = 0;

  // The type in which a matrix is kept here, for a model of this dtype; equal, or converted by
  // pack().
  virtual WeightType stored_type(const WeightType& source, DType model) const = 0;
  // Of slots, for a model of this dtype.
  virtual DType activation_dtype(DType model) const = 0;
  // Of the cache, unless the user asks for another, for a model of this dtype.
  virtual DType kv_dtype(DType model) const = 0;
  virtual bool supports_kv_dtype(DType dtype) const = 0;

  virtual int64_t packed_bytes(const kernels::PackedType& packed) const = 0;
  // `sources` in any type whose stored_type() is packed.type's. `out`: packed_bytes(packed) of host
  // memory, page-aligned.
  virtual Result<void> pack(const kernels::PackedType& packed, std::span<const WeightView> sources,
                            std::byte* out) const = 0;

  // kUnsupported says what is missing.
  virtual Result<std::unique_ptr<OpenDevice>> open(const EngineOptions& options) const = 0;
};

// Null if this build does not have it.
const Backend* find_backend(device::DeviceKind kind);
// The same as an error that names the kind.
Result<const Backend*> require_backend(device::DeviceKind kind);

// The rows of find_backend(); each is defined in its folder.
const Backend* cpu_backend();
const Backend* cuda_backend();

}  // namespace zonda::engine
