// Finding the token at which a running count or mass is reached, from the largest logit down: in a
// sorted list of candidates, or by bisection over a whole row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/sampling/cuda/bin_sums.cuh"

namespace zonda::kernels::cuda {

// Candidates of whole bins in order, in shared memory.
struct SortedList {
  uint64_t entry[kListSize];  // see ranked()
  uint64_t mass[kListSize];   // of entries 0 to i together
  int size;

  // Every thread of the block calls it; `count` is at most kListSize.
  __device__ void load(const uint64_t* from, int count, const RowWeights& weights) {
    int padded = 2;
    while (padded < count) {
      padded *= 2;
    }
    for (int i = static_cast<int>(threadIdx.x); i < padded; i += kThreads) {
      entry[i] = i < count ? __ldcg(from + i) : 0;
    }
    if (threadIdx.x == 0) {
      size = count;
    }
    __syncthreads();
    sort(padded);
    add_masses(count, weights);
  }

  // Bitonic, the largest first.
  __device__ void sort(int padded) {
    for (int run = 2; run <= padded; run *= 2) {
      for (int step = run / 2; step > 0; step /= 2) {
        for (int pair = static_cast<int>(threadIdx.x); pair < padded / 2; pair += kThreads) {
          const int low = pair / step * step * 2 + pair % step;
          const int high = low + step;
          const bool falls = (low & run) == 0;
          const uint64_t a = entry[low];
          const uint64_t b = entry[high];
          if ((a < b) == falls) {
            entry[low] = b;
            entry[high] = a;
          }
        }
        __syncthreads();
      }
    }
  }

  __device__ void add_masses(int count, const RowWeights& weights) {
    constexpr int kEach = kListSize / kThreads;
    const int first = static_cast<int>(threadIdx.x) * kEach;
    uint64_t sum = 0;
    for (int i = first; i < first + kEach && i < count; ++i) {
      sum += weights.mass_of(logit_of(entry[i]));
      mass[i] = sum;
    }
    const uint64_t before = block_sum_before(sum);
    for (int i = first; i < first + kEach && i < count; ++i) {
      mass[i] += before;
    }
    __syncthreads();
  }
};

// Both finders give every thread the same answers; all of them must ask.
struct ListFinder {
  struct Place {
    uint64_t mass;  // running, the token included
    int index;
  };
  const SortedList& list;
  const BinSums& bins;
  RowWeights weights;

  __device__ Place at_count(uint32_t wanted) const {
    const int bin = bins.bin_at_count(wanted);
    const int start = start_of(bin);
    return place(bin, start, start + static_cast<int>(wanted - bins.count_before(bin)) - 1);
  }
  __device__ Place at_mass(uint64_t wanted) const {
    const int bin = bins.bin_at_mass(wanted);
    const int start = start_of(bin);
    const uint64_t in_list = wanted - bins.mass_before(bin) + listed_before(start);
    return place(bin, start, BinSums::first_reaching(list.mass, list.size, in_list));
  }
  __device__ int32_t token(const Place& at) const { return token_of(list.entry[at.index]); }

 private:
  __device__ uint64_t listed_before(int index) const {
    return index > 0 ? list.mass[index - 1] : 0;
  }
  __device__ Place place(int bin, int start, int index) const {
    return {bins.mass_before(bin) + list.mass[index] - listed_before(start), index};
  }
  // The list's first entry of a bin.
  __device__ int start_of(int bin) const {
    int low = 0;
    int high = list.size - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (weights.bin_of(logit_of(list.entry[middle])) >= bin) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

// Reads the row once for each bit in which the logits of a bin differ: slow, and needed only where
// very many logits are equal or nearly so.
struct RowFinder {
  struct Place {
    uint64_t mass;     // running, the token included
    uint32_t key;      // order_key of its logit
    uint32_t ordinal;  // of the tokens with this key in order of their ids, from 1
  };
  struct Running {
    uint64_t mass;
    uint32_t count;
  };
  const float* logits;
  int32_t vocab;
  const BinSums& bins;
  RowWeights weights;

  __device__ Place at_count(uint32_t wanted) const {
    const uint32_t key = bisect(bins.bin_at_count(wanted),
                                [wanted](const Running& sum) { return sum.count >= wanted; });
    const Running before = running_from(key + 1);
    return place(before, key, wanted - before.count);
  }
  __device__ Place at_mass(uint64_t wanted) const {
    const uint32_t key = bisect(bins.bin_at_mass(wanted),
                                [wanted](const Running& sum) { return sum.mass >= wanted; });
    const Running before = running_from(key + 1);
    const uint64_t each = weights.mass_of(logit_of_key(key));
    return place(before, key, static_cast<uint32_t>((wanted - before.mass + each - 1) / each));
  }
  __device__ int32_t token(const Place& at) const {
    __shared__ int32_t found;
    uint32_t passed = 0;
    for (int32_t first = 0; first < vocab; first += kThreads) {
      const int32_t token = first + static_cast<int32_t>(threadIdx.x);
      const bool equal = token < vocab && order_key(logits[token]) == at.key;
      const auto equals = static_cast<uint32_t>(__syncthreads_count(equal));
      if (passed + equals >= at.ordinal) {
        const uint32_t before = block_sum_before<uint32_t>(equal ? 1 : 0);
        if (equal && passed + before + 1 == at.ordinal) {
          found = token;
        }
        __syncthreads();
        break;
      }
      passed += equals;
    }
    return found;
  }

 private:
  __device__ Place place(const Running& before, uint32_t key, uint32_t ordinal) const {
    return {before.mass + ordinal * weights.mass_of(logit_of_key(key)), key, ordinal};
  }

  // Calls body(key, mass) for the thread's share of the tokens that count.
  template <typename Body>
  __device__ void for_tokens(Body&& body) const {
    for (int32_t token = static_cast<int32_t>(threadIdx.x); token < vocab; token += kThreads) {
      const float logit = logits[token];
      const uint64_t mass = weights.mass_of(logit);
      if (mass > 0) {
        body(order_key(logit), mass);
      }
    }
  }

  // Of the tokens whose key is at least `key`.
  __device__ Running running_from(uint32_t key) const {
    Running sum = {0, 0};
    for_tokens([&](uint32_t other, uint64_t mass) {
      sum.mass += other >= key ? mass : 0;
      sum.count += other >= key ? 1 : 0;
    });
    return {block_reduce<Plus>(sum.mass), block_reduce<Plus>(sum.count)};
  }

  // The largest key of the bin from which on the running sum is reached.
  template <typename Reached>
  __device__ uint32_t bisect(int bin, Reached&& reached) const {
    uint32_t low = 0xffffffffu;
    uint32_t high = 0;
    for_tokens([&](uint32_t key, uint64_t) {
      if (weights.bin_of(logit_of_key(key)) == bin) {
        low = min(low, key);
        high = max(high, key);
      }
    });
    low = block_reduce<Smaller>(low);
    high = block_reduce<Larger>(high);
    while (low < high) {
      const uint32_t middle = high - (high - low) / 2;
      if (reached(running_from(middle))) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

}  // namespace zonda::kernels::cuda
