// Chooses the tokens of a step on the device: only ids and what a request asked for reach the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/device_memory.h"
#include "device/cuda/stream.h"
#include "kernels/sampling/choice.h"
#include "kernels/sampling/cuda/sample.h"

namespace zonda::engine::cuda {

class TokenChooser {
 public:
  // Room for the choices of `rows` rows of `vocab` logits. No step is running. kCapacity
  Result<void> reserve(int64_t rows, int64_t vocab, const device::cuda::Stream& stream);

  // Puts the choices, and the copy of their outcome, on the stream. `logits`: device memory,
  // [choices, vocab]; unchanged in the end. The choices' lists are not needed afterwards.
  Result<void> start(std::span<const kernels::TokenChoice> choices, float* logits,
                     const device::cuda::Stream& stream);
  // Of the last start(), once the stream has got there; valid until the next one. [choices]
  std::span<const kernels::ChosenToken> take();

  int64_t device_bytes() const;

 private:
  // What the choices of a step need.
  struct Needs {
    int64_t bias = 0;
    int64_t counts = 0;
    int64_t banned = 0;
    bool draws = false;
    bool logprobs = false;
    bool changes() const { return bias + counts + banned > 0; }
    bool plain() const { return !draws && !logprobs && !changes(); }
  };
  static Needs needs_of(std::span<const kernels::TokenChoice> choices);
  Result<void> grow_lists(const Needs& needs, const device::cuda::Stream& stream);
  // Arrays of one block of memory on the host and of its copy on the device.
  struct Inputs {
    kernels::cuda::SampleRow* rows = nullptr;
    int32_t* top_n = nullptr;
    kernels::TokenBias* bias = nullptr;
    kernels::TokenCount* counts = nullptr;
    int32_t* banned = nullptr;
  };
  struct Outcomes {
    int32_t* ids = nullptr;
    float* chosen = nullptr;  // from here on log-probabilities
    int32_t* ranks = nullptr;
    int32_t* top_tokens = nullptr;
    float* top = nullptr;
  };
  // Their bytes.
  static int64_t lay_out(const kernels::cuda::SampleLimits& limits, std::byte* host,
                         std::byte* device, Inputs& on_host, Inputs& on_device);
  static int64_t lay_out(const kernels::cuda::SampleLimits& limits, std::byte* host,
                         std::byte* device, Outcomes& on_host, Outcomes& on_device);
  Result<void> allocate(const kernels::cuda::SampleLimits& limits,
                        const device::cuda::Stream& stream);
  Result<void> upload(std::span<const kernels::TokenChoice> choices,
                      const device::cuda::Stream& stream);

  kernels::cuda::SampleLimits limits_;
  device::cuda::PinnedBuffer host_inputs_;
  device::cuda::DeviceBuffer inputs_;
  Inputs host_;
  Inputs device_;
  bool greedy_rows_ = false;  // the device holds a plain greedy choice for every row
  device::cuda::PinnedBuffer host_outputs_;
  device::cuda::DeviceBuffer outputs_;
  Outcomes host_out_;
  Outcomes device_out_;
  device::cuda::DeviceBuffer workspace_;
  std::vector<int32_t> asked_;  // top_logprobs of the last start()
  std::vector<bool> chooses_;   // whether it chose at all
  std::vector<kernels::ChosenToken> chosen_;
};

}  // namespace zonda::engine::cuda
