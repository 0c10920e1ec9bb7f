// SPDX-License-Identifier: Apache-2.0
#include "engine/tactics.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "engine/fingerprint.h"

namespace zonda::engine {
namespace {

constexpr std::array<int64_t, kBucketTokens.size()> kSampleTokens = {1, 4, 12, 48, 192, 512};
constexpr int kRepeats = 3;             // passes; the fastest counts
constexpr double kPassSeconds = 0.004;  // a pass ends when it has run this long
constexpr size_t kMaxCopies = 32;       // calls of a pass
constexpr int64_t kCacheVersion = 1;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string cache_key(const std::string& fingerprint, const LinearSample& sample, int32_t bucket) {
  const WeightType& type = sample.packed.type;
  return fmt::format("{}; {} [{}, {}] group {}{}{}; epilogue {}; {} tokens", fingerprint,
                     weight_format_name(type.format), type.rows, type.cols, type.group_size,
                     type.has_minimum ? " with minimum" : "",
                     sample.packed.order == kernels::RowOrder::kInterleaved ? " interleaved" : "",
                     static_cast<int>(sample.epilogue), bucket_sample_tokens(bucket));
}

bool is_gated(kernels::Epilogue epilogue) {
  return epilogue == kernels::Epilogue::kGatedSilu || epilogue == kernels::Epilogue::kGatedGeluTanh;
}

// Values of a sane size; zeros would make some processors faster than real data does.
void fill_pattern(float* out, int64_t count) {
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    out[i] = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
}

}  // namespace

int64_t bucket_sample_tokens(int32_t bucket) { return kSampleTokens[static_cast<size_t>(bucket)]; }

Result<TimingCache> TimingCache::load(const std::string& path) {
  TimingCache cache;
  Result<Json> json = parse_json_file(path);
  if (!json.ok()) {
    return json.error().code == ErrorCode::kNotFound ? Result<TimingCache>(cache) : json.error();
  }
  if (!json->is_object() || json->value("version", Json()) != kCacheVersion ||
      !json->contains("tactics")) {
    return corrupt("[timing_cache] {} is not a timing cache of version {}; remove it.", path,
                   kCacheVersion);
  }
  for (const auto& [key, entry] : (*json)["tactics"].items()) {
    const bool ok = entry.is_object() && entry.contains("tactic") && entry["tactic"].is_string() &&
                    entry.contains("seconds") && entry["seconds"].is_number();
    if (!ok) {
      return corrupt("[timing_cache] {}: entry \"{}\" has no tactic and seconds; remove the file.",
                     path, key);
    }
    cache.put(key, {entry["tactic"].get<std::string>(), entry["seconds"].get<double>()});
  }
  return cache;
}

Result<void> TimingCache::save(const std::string& path) const {
  Json json;
  json["version"] = kCacheVersion;
  json["tactics"] = Json::object();
  for (const auto& [key, time] : entries_) {
    json["tactics"][key] = {{"tactic", time.tactic}, {"seconds", time.seconds}};
  }
  return write_file(path, dump_json(json, 1));
}

const TacticTime* TimingCache::find(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

void TimingCache::put(const std::string& key, TacticTime time) { entries_[key] = std::move(time); }

BucketTimes default_tactics(const kernels::PackedType& packed, device::CpuIsa isa) {
  BucketTimes times;
  for (size_t bucket = 0; bucket < times.size(); ++bucket) {
    times[bucket].tactic =
        kernels::default_linear_tactic(packed.type, isa, kSampleTokens[bucket]).name;
  }
  return times;
}

TacticTimer::TacticTimer(device::Stream& stream, TimingCache& cache)
    : stream_(stream),
      cache_(cache),
      fingerprint_(
          fmt::format("{}; {} threads", device_fingerprint(stream), stream.pool().size())) {}

Result<void> TacticTimer::reserve(const LinearSample& sample, int64_t tokens) {
  const auto grow = [](device::Buffer& buffer, int64_t bytes, bool pattern) -> Result<void> {
    if (static_cast<int64_t>(buffer.size()) >= bytes) {
      return {};
    }
    Result<device::Buffer> larger = device::Buffer::allocate(static_cast<size_t>(bytes));
    if (!larger.ok()) {
      return larger.error();
    }
    buffer = std::move(*larger);
    if (pattern) {
      fill_pattern(buffer.as<float>(), bytes / 4);
    }
    return {};
  };
  const WeightType& type = sample.packed.type;
  if (Result<void> grown = grow(x_, tokens * type.cols * 4, true); !grown.ok()) {
    return grown;
  }
  if (Result<void> grown = grow(y_, tokens * type.rows * 4, false); !grown.ok()) {
    return grown;
  }
  return grow(workspace_,
              kernels::linear_workspace_bytes(sample.packed, tokens, stream_.pool().size()), false);
}

double TacticTimer::time_tactic(const kernels::LinearTactic& tactic, const LinearSample& sample,
                                int64_t tokens) {
  kernels::LinearParams params;
  params.packed = sample.packed;
  params.epilogue = sample.epilogue;
  params.x = x_.as<float>();
  params.y = y_.as<float>();
  params.residual = params.y;
  params.workspace = workspace_.data();
  params.num_tokens = tokens;
  params.x_stride = sample.packed.type.cols;
  params.y_stride =
      is_gated(sample.epilogue) ? sample.packed.type.rows / 2 : sample.packed.type.rows;
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const Clock::time_point start = Clock::now();
    size_t calls = 0;
    do {
      params.weights = sample.copies[calls % sample.copies.size()];
      tactic.run(params, stream_);
      ++calls;
    } while (calls < kMaxCopies && seconds_since(start) < kPassSeconds);
    best = std::min(best, seconds_since(start) / static_cast<double>(calls));
  }
  return best;
}

TacticTime TacticTimer::fastest(const LinearSample& sample, int64_t tokens) {
  TacticTime best{"", std::numeric_limits<double>::infinity()};
  for (const kernels::LinearTactic& tactic :
       kernels::linear_tactics(sample.packed.type, stream_.isa())) {
    if (tokens < tactic.min_tokens || tokens > tactic.max_tokens) {
      continue;
    }
    const double seconds = time_tactic(tactic, sample, tokens);
    ++measured_;
    if (seconds < best.seconds) {
      best = {std::string(tactic.name), seconds};
    }
  }
  if (best.tactic.empty()) {
    const auto& tactic = kernels::default_linear_tactic(sample.packed.type, stream_.isa(), tokens);
    best = {std::string(tactic.name), 0.0};
  }
  return best;
}

Result<BucketTimes> TacticTimer::choose(const LinearSample& sample, int64_t max_tokens) {
  CHECK(!sample.copies.empty());
  BucketTimes times;
  for (int32_t bucket = 0; bucket < static_cast<int32_t>(times.size()); ++bucket) {
    TacticTime& time = times[static_cast<size_t>(bucket)];
    const bool reachable =
        bucket == 0 || max_tokens > kBucketTokens[static_cast<size_t>(bucket) - 1];
    if (!reachable) {
      time = {times[static_cast<size_t>(bucket) - 1].tactic, 0.0};
      continue;
    }
    const std::string key = cache_key(fingerprint_, sample, bucket);
    if (const TacticTime* known = cache_.find(key)) {
      time = *known;
      ++from_cache_;
      continue;
    }
    const int64_t tokens = bucket_sample_tokens(bucket);
    if (const Result<void> reserved = reserve(sample, tokens); !reserved.ok()) {
      return reserved.error();
    }
    time = fastest(sample, tokens);
    cache_.put(key, time);
  }
  return times;
}

}  // namespace zonda::engine
