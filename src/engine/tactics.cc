// SPDX-License-Identifier: Apache-2.0
#include "engine/tactics.h"

#include "base/error.h"
#include "base/file.h"

namespace zonda::engine {
namespace {

constexpr std::array<int64_t, kBucketTokens.size()> kSampleTokens = {1,  4,   12,  32,
                                                                     64, 192, 512, 2048};
constexpr int64_t kCacheVersion = 1;

std::string cache_key(const std::string& device, const LinearSample& sample, int32_t bucket) {
  const WeightType& type = sample.packed.type;
  return fmt::format("{}; {} [{}, {}] group {}{}{}; epilogue {}{}; {} tokens", device,
                     weight_format_name(type.format), type.rows, type.cols, type.group_size,
                     type.has_minimum ? " with minimum" : "",
                     sample.packed.order == kernels::RowOrder::kInterleaved ? " interleaved" : "",
                     static_cast<int>(sample.epilogue), sample.after_norm ? " after a norm" : "",
                     bucket_sample_tokens(bucket));
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

BucketTimes default_tactics(const TacticSource& source, const kernels::PackedType& packed) {
  BucketTimes times;
  for (size_t bucket = 0; bucket < times.size(); ++bucket) {
    times[bucket].tactic = source.default_tactic(packed, kSampleTokens[bucket]);
  }
  return times;
}

Result<BucketTimes> TacticTimer::choose(const LinearSample& sample, int64_t max_tokens) {
  CHECK(!sample.copies.empty());
  BucketTimes times;
  for (int32_t bucket = 0; bucket < static_cast<int32_t>(times.size()); ++bucket) {
    TacticTime& time = times[static_cast<size_t>(bucket)];
    const bool reachable =
        bucket == 0 || (max_tokens > kBucketTokens[static_cast<size_t>(bucket) - 1] &&
                        bucket_sample_tokens(bucket) <= source_.longest_sample());
    if (!reachable) {
      time = {times[static_cast<size_t>(bucket) - 1].tactic, 0.0};
      continue;
    }
    const std::string key = cache_key(source_.timing_key(), sample, bucket);
    if (const TacticTime* known = cache_.find(key)) {
      time = *known;
      ++from_cache_;
      continue;
    }
    const int64_t tokens = bucket_sample_tokens(bucket);
    Result<TacticTime> fastest = source_.fastest(sample, tokens, measured_);
    if (!fastest.ok()) {
      return fastest.error();
    }
    time = std::move(*fastest);
    if (time.tactic.empty()) {
      time = {source_.default_tactic(sample.packed, tokens), 0.0};
    }
    cache_.put(key, time);
  }
  return times;
}

}  // namespace zonda::engine
