// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/token_chooser.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "device/cuda/cuda_status.h"
#include "engine/cuda/places.h"

namespace zonda::engine::cuda {
namespace {

using device::cuda::check;
using device::cuda::DeviceBuffer;
using device::cuda::PinnedBuffer;
using kernels::ChoiceMode;
using kernels::TokenChoice;
using kernels::cuda::ListRange;
using kernels::cuda::RowMode;
using kernels::cuda::SampleRow;

constexpr int64_t kTop = kernels::cuda::kMaxTopLogprobs;

Result<void> allocate_pair(PinnedBuffer& host, DeviceBuffer& device, int64_t bytes) {
  Result<PinnedBuffer> on_host = PinnedBuffer::allocate(static_cast<size_t>(bytes));
  Result<DeviceBuffer> on_device = DeviceBuffer::allocate(static_cast<size_t>(bytes));
  if (!on_host || !on_device) {
    return over_capacity("[engine] choosing tokens needs {} bytes: {}", bytes,
                         on_host ? on_device.error().message : on_host.error().message);
  }
  host = std::move(*on_host);
  device = std::move(*on_device);
  return {};
}

// Appends a list of one row to the lists of all rows.
template <typename T>
ListRange append(std::span<const T> from, T* to, int32_t& used) {
  const ListRange range{used, used + static_cast<int32_t>(from.size())};
  std::copy(from.begin(), from.end(), to + used);
  used = range.end;
  return range;
}

RowMode row_mode(ChoiceMode mode) {
  switch (mode) {
    case ChoiceMode::kGreedy:
      return RowMode::kGreedy;
    case ChoiceMode::kDraw:
      return RowMode::kDraw;
    default:
      return RowMode::kSkip;
  }
}

// Grows by doubling: lists get longer with every token of a sequence.
int64_t grown(int64_t have, int64_t need) {
  constexpr int64_t kLeast = 256;
  return need <= have
             ? have
             : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(need, kLeast))));
}

}  // namespace

Result<void> TokenChooser::reserve(int64_t rows, int64_t vocab,
                                   const device::cuda::Stream& stream) {
  kernels::cuda::SampleLimits limits = limits_;
  limits.max_rows = rows;
  limits.vocab = vocab;
  return allocate(limits, stream);
}

int64_t TokenChooser::lay_out(const kernels::cuda::SampleLimits& limits, std::byte* host,
                              std::byte* device, Inputs& on_host, Inputs& on_device) {
  Places places(host, device);
  on_host.rows = places.take<SampleRow>(limits.max_rows, on_device.rows);
  on_host.top_n = places.take<int32_t>(limits.max_rows, on_device.top_n);
  on_host.bias = places.take<kernels::TokenBias>(limits.max_bias, on_device.bias);
  on_host.counts = places.take<kernels::TokenCount>(limits.max_counts, on_device.counts);
  on_host.banned = places.take<int32_t>(limits.max_banned, on_device.banned);
  return places.bytes();
}

int64_t TokenChooser::lay_out(const kernels::cuda::SampleLimits& limits, std::byte* host,
                              std::byte* device, Outcomes& on_host, Outcomes& on_device) {
  const int64_t rows = limits.max_rows;
  Places places(host, device);
  on_host.ids = places.take<int32_t>(rows, on_device.ids);
  on_host.chosen = places.take<float>(rows, on_device.chosen);
  on_host.ranks = places.take<int32_t>(rows, on_device.ranks);
  on_host.top_tokens = places.take<int32_t>(rows * kTop, on_device.top_tokens);
  on_host.top = places.take<float>(rows * kTop, on_device.top);
  return places.bytes();
}

// All or nothing: what there was stays usable if memory runs out.
Result<void> TokenChooser::allocate(const kernels::cuda::SampleLimits& limits,
                                    const device::cuda::Stream& stream) {
  Inputs no_inputs;
  Outcomes no_outcomes;
  PinnedBuffer host_inputs;
  PinnedBuffer host_outputs;
  DeviceBuffer inputs;
  DeviceBuffer outputs;
  if (auto done = allocate_pair(host_inputs, inputs,
                                lay_out(limits, nullptr, nullptr, no_inputs, no_inputs));
      !done) {
    return done;
  }
  if (auto done = allocate_pair(host_outputs, outputs,
                                lay_out(limits, nullptr, nullptr, no_outcomes, no_outcomes));
      !done) {
    return done;
  }
  const auto bytes = static_cast<size_t>(kernels::cuda::sample_workspace_bytes(limits));
  Result<DeviceBuffer> workspace = DeviceBuffer::allocate(bytes);
  if (!workspace) {
    return over_capacity("[engine] choosing tokens needs {} bytes: {}", bytes,
                         workspace.error().message);
  }
  if (auto cleared = check(cudaMemsetAsync(workspace->data(), 0, bytes, stream.handle()),
                           "[engine] clearing memory of choices");
      !cleared) {
    return cleared;
  }
  limits_ = limits;
  host_inputs_ = std::move(host_inputs);
  host_outputs_ = std::move(host_outputs);
  inputs_ = std::move(inputs);
  outputs_ = std::move(outputs);
  workspace_ = std::move(*workspace);
  lay_out(limits_, host_inputs_.data(), inputs_.data(), host_, device_);
  lay_out(limits_, host_outputs_.data(), outputs_.data(), host_out_, device_out_);
  greedy_rows_ = false;
  return {};
}

TokenChooser::Needs TokenChooser::needs_of(std::span<const TokenChoice> choices) {
  Needs needs;
  for (const TokenChoice& choice : choices) {
    needs.bias += static_cast<int64_t>(choice.changes.bias.size());
    needs.counts += static_cast<int64_t>(choice.changes.counts.size());
    needs.banned += static_cast<int64_t>(choice.changes.banned.size());
    needs.draws |= choice.mode == ChoiceMode::kDraw;
    needs.logprobs |= choice.top_logprobs >= 0;
  }
  return needs;
}

Result<void> TokenChooser::grow_lists(const Needs& needs, const device::cuda::Stream& stream) {
  kernels::cuda::SampleLimits wanted = limits_;
  wanted.max_bias = grown(limits_.max_bias, needs.bias);
  wanted.max_counts = grown(limits_.max_counts, needs.counts);
  wanted.max_banned = grown(limits_.max_banned, needs.banned);
  if (wanted.max_bias == limits_.max_bias && wanted.max_counts == limits_.max_counts &&
      wanted.max_banned == limits_.max_banned) {
    return {};
  }
  // What the stream still uses must not be freed.
  if (auto ended = stream.synchronize(); !ended) {
    return ended;
  }
  return allocate(wanted, stream);
}

Result<void> TokenChooser::upload(std::span<const TokenChoice> choices,
                                  const device::cuda::Stream& stream) {
  int32_t bias = 0;
  int32_t counts = 0;
  int32_t banned = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    const TokenChoice& choice = choices[i];
    SampleRow& row = host_.rows[i];
    row = {.mode = row_mode(choice.mode),
           .draw = choice.draw,
           .bias = append(choice.changes.bias, host_.bias, bias),
           .counts = append(choice.changes.counts, host_.counts, counts),
           .banned = append(choice.changes.banned, host_.banned, banned),
           .repetition_penalty = choice.changes.repetition_penalty,
           .presence_penalty = choice.changes.presence_penalty,
           .frequency_penalty = choice.changes.frequency_penalty};
    host_.top_n[i] = choice.mode == ChoiceMode::kNone ? -1 : choice.top_logprobs;
  }
  // Up to the end of the last list that is not empty.
  const std::byte* end = reinterpret_cast<const std::byte*>(host_.top_n + choices.size());
  end = bias > 0 ? reinterpret_cast<const std::byte*>(host_.bias + bias) : end;
  end = counts > 0 ? reinterpret_cast<const std::byte*>(host_.counts + counts) : end;
  end = banned > 0 ? reinterpret_cast<const std::byte*>(host_.banned + banned) : end;
  return check(cudaMemcpyAsync(inputs_.data(), host_inputs_.data(),
                               static_cast<size_t>(end - host_inputs_.data()),
                               cudaMemcpyHostToDevice, stream.handle()),
               "[engine] the copy of choices");
}

Result<void> TokenChooser::start(std::span<const TokenChoice> choices, float* logits,
                                 const device::cuda::Stream& stream) {
  CHECK(static_cast<int64_t>(choices.size()) <= limits_.max_rows);
  const Needs needs = needs_of(choices);
  asked_.clear();
  chooses_.clear();
  bool all_choose = true;
  for (const TokenChoice& choice : choices) {
    asked_.push_back(choice.top_logprobs);
    chooses_.push_back(choice.mode != ChoiceMode::kNone);
    all_choose &= chooses_.back();
  }
  if (auto grew = grow_lists(needs, stream); !grew) {
    return grew;
  }
  // Greedy rows look alike in every step: they stay on the device.
  const bool plain = needs.plain() && all_choose;
  if (!plain || !greedy_rows_) {
    const std::vector<TokenChoice> all_greedy(
        plain ? static_cast<size_t>(limits_.max_rows) : size_t{0},
        TokenChoice{.mode = ChoiceMode::kGreedy, .changes = {}, .draw = {}});
    if (auto sent = upload(plain ? all_greedy : choices, stream); !sent) {
      return sent;
    }
    greedy_rows_ = plain;
  }
  kernels::cuda::SampleParams params;
  params.logits = logits;
  params.logits_stride = limits_.vocab;
  params.rows = device_.rows;
  params.bias = device_.bias;
  params.counts = device_.counts;
  params.banned = device_.banned;
  params.ids = device_out_.ids;
  params.workspace = workspace_.data();
  params.limits = limits_;
  params.num_rows = static_cast<int64_t>(choices.size());
  params.any_changes = needs.changes();
  params.any_draws = needs.draws;
  if (auto chosen = check(kernels::cuda::sample(params, stream.site()), "[engine] the choice");
      !chosen) {
    return chosen;
  }
  size_t bytes = choices.size() * sizeof(int32_t);
  if (needs.logprobs) {
    kernels::cuda::LogprobParams logprobs;
    logprobs.logits = logits;
    logprobs.logits_stride = limits_.vocab;
    logprobs.chosen = device_out_.ids;
    logprobs.top_n = device_.top_n;
    logprobs.chosen_logprobs = device_out_.chosen;
    logprobs.chosen_ranks = device_out_.ranks;
    logprobs.top_tokens = device_out_.top_tokens;
    logprobs.top_logprobs = device_out_.top;
    logprobs.workspace = workspace_.data();
    logprobs.limits = limits_;
    logprobs.num_rows = params.num_rows;
    if (auto done = check(kernels::cuda::row_logprobs(logprobs, stream.site()),
                          "[engine] log-probabilities");
        !done) {
      return done;
    }
    bytes = outputs_.size();
  }
  return check(cudaMemcpyAsync(host_outputs_.data(), outputs_.data(), bytes, cudaMemcpyDeviceToHost,
                               stream.handle()),
               "[engine] the copy of chosen tokens");
}

std::span<const kernels::ChosenToken> TokenChooser::take() {
  chosen_.assign(asked_.size(), {});
  for (size_t i = 0; i < asked_.size(); ++i) {
    kernels::ChosenToken& chosen = chosen_[i];
    if (!chooses_[i]) {
      continue;
    }
    chosen.token = kernels::cuda::chosen_token(host_out_.ids[i]);
    if (!chosen.token || asked_[i] < 0) {
      continue;
    }
    chosen.logprobs.chosen = host_out_.chosen[i];
    chosen.logprobs.rank = host_out_.ranks[i];
    const int64_t count = std::min({int64_t{asked_[i]}, kTop, limits_.vocab});
    for (int64_t k = 0; k < count; ++k) {
      const int64_t at = static_cast<int64_t>(i) * kTop + k;
      chosen.logprobs.top.push_back({host_out_.top_tokens[at], host_out_.top[at]});
    }
  }
  return chosen_;
}

int64_t TokenChooser::device_bytes() const {
  return static_cast<int64_t>(inputs_.size() + outputs_.size() + workspace_.size());
}

}  // namespace zonda::engine::cuda
