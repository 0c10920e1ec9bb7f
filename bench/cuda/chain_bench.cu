// Decode steps of Llama-3.1-8B in linears: 32 times qkv, a stand-in for attention, o, gate+up,
// down, then the head, as dependent launches in one graph, with weights of its own for each layer.
// Arguments: formats (bf16 int8 int4 ..., default bf16 int4), --tokens=N[,N] (default 1,8,32,64),
// --check (bits of all deterministic tactics against the first, no times), --uniform (every tactic
// alone as well), --no-carveout (the stand-in leaves the split of L1 to the driver). Prints the
// best of the mma and cublaslt tactics, and of all. SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>

#include "device/cuda/dependent.cuh"
#include "kernels/norm/cuda/rms_norm.h"
#include "linear_case.h"

namespace {

using namespace zonda::bench;  // NOLINT: this program is a part of it

constexpr double kAttentionSeconds = 6e-6;
constexpr int kAttentionBlocks = 64;

__global__ void attention_stand_in(int64_t cycles) {
  zonda::device::cuda::allow_next();
  zonda::device::cuda::wait_for_previous();
  const int64_t begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

class Chain {
 public:
  Chain(const Format& format, int64_t max_tokens, bool carve, cudaStream_t stream)
      : stream_(stream) {
    for (const Matrix& matrix : kMatrices) {
      const bool is_head = &matrix == &kMatrices[kHead];
      cases_.emplace_back(format, matrix, max_tokens, is_head ? 1 : kLayers);
      bytes_ +=
          static_cast<double>(cuda::packed_bytes(cases_.back().packed())) * cases_.back().copies();
    }
    normed_ = allocate(max_tokens * 4096 * 2);
    must(cudaMemset(normed_.data(), 0x3f, normed_.size()), "memset");
    int kilohertz = 0;
    must(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, 0), "clock");
    cycles_ = static_cast<int64_t>(kAttentionSeconds * kilohertz * 1e3);
    must(
        cudaFuncSetAttribute(attention_stand_in, cudaFuncAttributePreferredSharedMemoryCarveout,
                             carve ? cudaSharedmemCarveoutMaxShared : cudaSharedmemCarveoutDefault),
        "attribute");
  }
  const Case& at(int matrix) const { return cases_[static_cast<size_t>(matrix)]; }
  double floor_seconds() const { return bytes_ / kReadLimit + kLayers * kAttentionSeconds; }
  double bytes() const { return bytes_; }

  // Microseconds of one matrix alone, its layers in a row.
  double time_alone(int m, int64_t tokens, const cuda::LinearTactic& tactic) {
    const int copies = at(m).copies();
    return time_graph(stream_,
                      [&] {
                        is_first_ = true;
                        for (int layer = 0; layer < copies; ++layer) {
                          linear(m, layer, tokens, tactic);
                        }
                      }) /
           copies;
  }

  // Microseconds of a step with these tactics of the five matrices.
  double time(int64_t tokens, const std::vector<const cuda::LinearTactic*>& tactics) {
    return time_graph(stream_, [&] {
      is_first_ = true;
      for (int layer = 0; layer < kLayers; ++layer) {
        linear(0, layer, tokens, *tactics[0]);
        attention();
        for (int m = 1; m < kHead; ++m) {
          linear(m, layer, tokens, *tactics[static_cast<size_t>(m)]);
        }
      }
      linear(kHead, 0, tokens, *tactics[kHead]);
    });
  }

 private:
  LaunchSite site() {
    const bool dependent = !is_first_;
    is_first_ = false;
    return {stream_, dependent};
  }
  void attention() {
    must(zonda::device::cuda::launch(attention_stand_in, dim3(kAttentionBlocks), dim3(256), 0,
                                     site(), cycles_),
         "stand-in");
  }
  void linear(int m, int layer, int64_t tokens, const cuda::LinearTactic& tactic) {
    const bool fused = kMatrices[m].norm && tactic.fuses_norm;
    cuda::LinearParams params = at(m).params(tokens, fused, layer);
    if (kMatrices[m].norm && !fused) {
      cuda::RmsNormParams norm;
      norm.x = params.x;
      norm.weight = at(m).params(tokens, true, 0).norm_weight;
      norm.y = normed_.data();
      norm.num_rows = tokens;
      norm.size = norm.x_stride = norm.y_stride = params.x_stride;
      norm.eps = params.norm_eps;
      norm.activation = params.activation;
      must(cuda::rms_norm(norm, site()), "norm");
      params.x = normed_.data();
    }
    must(tactic.run(params, site()), tactic.name.data());
  }

  cudaStream_t stream_;
  std::vector<Case> cases_;
  DeviceBuffer normed_;
  double bytes_ = 0.0;
  int64_t cycles_ = 0;
  bool is_first_ = true;
};

using Tactics = std::vector<const cuda::LinearTactic*>;

Tactics tactics_for(const Chain& chain, int64_t tokens, int capability) {
  Tactics found;
  for (const cuda::LinearTactic& tactic :
       cuda::linear_tactics(chain.at(0).packed().type, capability)) {
    if (tokens >= tactic.min_tokens && tokens <= tactic.max_tokens) {
      found.push_back(&tactic);
    }
  }
  return found;
}

void print_step(const Chain& chain, const char* label, int64_t tokens, double us,
                const Tactics& chosen) {
  std::printf("%-22s %3ld tokens %8.3f ms %6.0f steps/s, %4.0f GB/s, %5.1f %% of bytes + stand-in:",
              label, static_cast<long>(tokens), us * 1e-3, 1e6 / us, chain.bytes() / us * 1e-3,
              chain.floor_seconds() * 1e8 / us);
  for (size_t m = 0; m < chosen.size(); ++m) {
    if (m == 0 || chosen[m] != chosen[m - 1]) {
      std::printf(" %s:%s", kMatrices[m].name, chosen[m]->name.data());
    }
  }
  std::printf("\n");
}

// One matrix after the other takes the tactic that makes the step fastest.
void descend(Chain& chain, const char* label, int64_t tokens, const Tactics& candidates,
             bool uniform) {
  if (candidates.empty()) {
    return;
  }
  Tactics best;
  double best_us = 1e30;
  for (const cuda::LinearTactic* tactic : candidates) {
    const Tactics all(std::size(kMatrices), tactic);
    const double us = chain.time(tokens, all);
    if (uniform) {
      print_step(chain, label, tokens, us, all);
      for (int m = 0; m < static_cast<int>(std::size(kMatrices)); ++m) {
        const double alone = chain.time_alone(m, tokens, *tactic);
        const auto bytes = static_cast<double>(cuda::packed_bytes(chain.at(m).packed()));
        std::printf("%s %s %.1f us %.0f %%", m == 0 ? "    alone:" : ",", kMatrices[m].name, alone,
                    bytes / kReadLimit * 1e8 / alone);
      }
      std::printf("\n");
    }
    if (us < best_us) {
      best_us = us;
      best = all;
    }
  }
  for (size_t m = 0; m < std::size(kMatrices); ++m) {
    for (const cuda::LinearTactic* tactic : candidates) {
      Tactics changed = best;
      changed[m] = tactic;
      const double us = tactic == best[m] ? best_us : chain.time(tokens, changed);
      if (us < best_us * 0.999) {
        best_us = us;
        best = changed;
      }
    }
  }
  print_step(chain, label, tokens, best_us, best);
}

std::vector<std::byte> output_of(const Case& c, int64_t tokens, bool norm,
                                 const cuda::LinearTactic& tactic, cudaStream_t stream) {
  const cuda::LinearParams params = c.params(tokens, norm, 0);
  std::vector<std::byte> bytes(
      static_cast<size_t>(tokens * params.y_stride * (params.float32_output ? 4 : 2)));
  // The residual is y itself.
  must(cudaMemsetAsync(params.y, params.epilogue == Epilogue::kAddResidual ? 0x3e : 0xff,
                       bytes.size(), stream),
       "memset");
  must(tactic.run(params, {stream, false}), tactic.name.data());
  must(cudaMemcpyAsync(bytes.data(), params.y, bytes.size(), cudaMemcpyDeviceToHost, stream),
       "copy");
  must(cudaStreamSynchronize(stream), tactic.name.data());
  return bytes;
}

void check(const Chain& chain, int64_t tokens, int capability, cudaStream_t stream) {
  int compared = 0;
  int wrong = 0;
  for (int m = 0; m < static_cast<int>(std::size(kMatrices)); ++m) {
    for (const bool norm : {false, true}) {
      std::vector<std::byte> expected;
      // The last is the plainest.
      Tactics tactics = tactics_for(chain, tokens, capability);
      std::reverse(tactics.begin(), tactics.end());
      for (const cuda::LinearTactic* tactic : tactics) {
        if (!tactic->deterministic || (norm && !(tactic->fuses_norm && kMatrices[m].norm))) {
          continue;
        }
        const std::vector<std::byte> y = output_of(chain.at(m), tokens, norm, *tactic, stream);
        if (expected.empty()) {
          expected = y;
        } else {
          ++compared;
          if (y != expected) {
            ++wrong;
            std::printf("other bits: %s %ld tokens, norm %d, %s\n", kMatrices[m].name,
                        static_cast<long>(tokens), norm, tactic->name.data());
          }
        }
      }
    }
  }
  std::printf("%ld tokens: %d of %d outputs differ\n", static_cast<long>(tokens), wrong, compared);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int64_t> token_counts = {1, 8, 32, 64};
  std::vector<std::string> names;
  bool only_check = false;
  bool uniform = false;
  bool carve = true;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--tokens=", 9) == 0) {
      token_counts.clear();
      for (const char* at = argv[i] + 8; at != nullptr; at = std::strchr(at + 1, ',')) {
        token_counts.push_back(std::atol(at + 1));
      }
    } else if (std::strcmp(argv[i], "--check") == 0) {
      only_check = true;
    } else if (std::strcmp(argv[i], "--no-carveout") == 0) {
      carve = false;
    } else if (std::strcmp(argv[i], "--uniform") == 0) {
      uniform = true;
    } else {
      names.emplace_back(argv[i]);
    }
  }
  if (names.empty()) {
    names = {"bf16", "int4"};
  }
  cudaDeviceProp device;
  must(cudaGetDeviceProperties(&device, 0), "device");
  const int capability = device.major * 10 + device.minor;
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  for (const std::string& name : names) {
    for (const Format& format : kFormats) {
      if (name != format.name) {
        continue;
      }
      std::printf("--- %s\n", format.name);
      Chain chain(format, *std::max_element(token_counts.begin(), token_counts.end()), carve,
                  stream);
      for (const int64_t tokens : token_counts) {
        if (only_check) {
          check(chain, tokens, capability, stream);
          continue;
        }
        Tactics all = tactics_for(chain, tokens, capability);
        Tactics others;
        for (const cuda::LinearTactic* tactic : all) {
          if (!tactic->name.starts_with("stream")) {
            others.push_back(tactic);
          }
        }
        descend(chain, "without streams", tokens, others, false);
        descend(chain, "all", tokens, all, uniform);
      }
    }
  }
  must(cudaDeviceSynchronize(), "end");
  return 0;
}
