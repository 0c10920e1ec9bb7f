// Which tactic computes a linear fastest on this device, for each range of tokens: measured, and
// remembered in a cache. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan.h"

namespace zonda::engine {

struct TacticTime {
  std::string tactic;
  double seconds = 0.0;  // of one call; 0 if not measured
};
using BucketTimes = std::array<TacticTime, kBucketTokens.size()>;

// The token count at which a bucket's tactics are compared.
int64_t bucket_sample_tokens(int32_t bucket);

// Results of earlier timings by device, weight type, epilogue and bucket; a JSON file.
class TimingCache {
 public:
  // A missing file is an empty cache; an unreadable one is an error.
  static Result<TimingCache> load(const std::string& path);
  Result<void> save(const std::string& path) const;

  const TacticTime* find(const std::string& key) const;
  void put(const std::string& key, TacticTime time);
  size_t size() const { return entries_.size(); }

 private:
  std::map<std::string, TacticTime> entries_;
};

// One linear to decide about: all packed copies of its type, so that repeated calls do not find
// them in the cache.
struct LinearSample {
  kernels::PackedType packed;
  kernels::Epilogue epilogue = kernels::Epilogue::kStore;
  std::vector<const std::byte*> copies;
  bool after_norm = false;  // a norm ahead of it may be computed inside; see fusions.h
};

// The tactics of a device.
class TacticSource {
 public:
  virtual ~TacticSource() = default;
  // Names device and settings that timings depend on; part of the keys of a TimingCache.
  virtual std::string timing_key() const = 0;
  // The most tokens that are worth timing; longer steps take the tactics of this many.
  virtual int64_t longest_sample() const = 0;
  virtual bool has_tactic(const WeightType& type, std::string_view name) const = 0;
  // The one to take without timing.
  virtual std::string default_tactic(const kernels::PackedType& packed, int64_t tokens) const = 0;
  // Times all that are meant for this number of tokens; `count`: how many were. An empty name if
  // there is none.
  virtual Result<TacticTime> fastest(const LinearSample& sample, int64_t tokens,
                                     int64_t& count) = 0;
};

class TacticTimer {
 public:
  TacticTimer(TacticSource& source, TimingCache& cache) : source_(source), cache_(cache) {}

  // The best tactic of every bucket up to max_tokens; later buckets take the last one measured.
  Result<BucketTimes> choose(const LinearSample& sample, int64_t max_tokens);
  int64_t measured() const { return measured_; }
  int64_t from_cache() const { return from_cache_; }

 private:
  TacticSource& source_;
  TimingCache& cache_;
  int64_t measured_ = 0;
  int64_t from_cache_ = 0;
};

// Default tactics of every bucket, without times.
BucketTimes default_tactics(const TacticSource& source, const kernels::PackedType& packed);

}  // namespace zonda::engine
