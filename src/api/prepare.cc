// SPDX-License-Identifier: Apache-2.0
#include "api/prepare.h"

#include <algorithm>
#include <filesystem>

#include "api/cache.h"
#include "api/version.h"
#include "base/log.h"
#include "runtime/model_runner.h"

namespace zonda::api {
namespace {

Result<std::string> cache_entry_name(const ModelSource& source, const std::string& what,
                                     const std::string& salt) {
  Result<std::string> hash = source_fingerprint(source, salt);
  if (!hash) {
    return hash.error();
  }
  return source_name(source) + "-" + what + "-" + *hash;
}

std::string convert_salt(const convert::ConvertOptions& options) {
  std::string salt =
      fmt::format("{} dtype={} qformat={} group={} asymmetric={}", kVersion, options.dtype,
                  options.qformat, options.group_size, options.asymmetric);
  for (const std::string& module : options.exclude_modules) {
    salt += " exclude=" + module;
  }
  return salt;
}

// An engine whose limits hold at least what the executor is asked for.
BuildOptions build_options(const LlmOptions& options) {
  BuildOptions build;
  const ExecutorConfig& executor = options.executor;
  build.max_batch_size = std::max<int64_t>(build.max_batch_size, executor.max_batch_size);
  build.max_num_tokens = std::max<int64_t>(build.max_num_tokens, executor.max_num_tokens);
  build.threads = executor.num_threads;
  build.device = options.device;
  return build;
}

Result<std::string> build_salt(const BuildOptions& build) {
  Result<std::string> device = build_device(build.device);
  if (!device) {
    return device;
  }
  return fmt::format("{} batch={} tokens={} device={}", kVersion, build.max_batch_size,
                     build.max_num_tokens, *device);
}

Result<std::string> build_into_cache(const std::string& checkpoint, const LlmOptions& options) {
  Result<ModelSource> source = find_source(checkpoint);
  Result<std::string> root = cache_root(options.cache_dir);
  if (!source || !root) {
    return source ? root.error() : source.error();
  }
  BuildOptions build = build_options(options);
  build.checkpoint_dir = checkpoint;
  const Result<std::string> salt = build_salt(build);
  if (!salt) {
    return salt.error();
  }
  Result<std::string> name = cache_entry_name(*source, "engine", *salt);
  if (!name) {
    return name.error();
  }
  return cached_folder(*root, *name, [&](const std::string& folder) -> Result<void> {
    log_info("building an engine for this machine into {}", folder);
    build.output_dir = folder;
    build.output_timing_cache = *root + "/timings.json";
    std::error_code error;
    if (std::filesystem::exists(build.output_timing_cache, error)) {
      build.input_timing_cache = build.output_timing_cache;
    }
    Result<BuildReport> report = build_engine(build);
    return report ? Result<void>{} : Result<void>{report.error()};
  });
}

}  // namespace

Result<std::string> prepare_checkpoint(const ModelSource& source, const std::string& cache_dir,
                                       const convert::ConvertOptions& options) {
  if (source.kind == SourceKind::kCheckpoint) {
    return source.path;
  }
  Result<std::string> root = cache_root(cache_dir);
  Result<std::string> name = cache_entry_name(source, "checkpoint", convert_salt(options));
  if (!root || !name) {
    return root ? name.error() : root.error();
  }
  return cached_folder(*root, *name, [&](const std::string& folder) -> Result<void> {
    log_info("converting {} into {}", source.path, folder);
    convert::ConvertOptions made = options;
    made.model_dir = source.path;
    made.output_dir = folder;
    Result<convert::ConvertReport> report = convert::convert_checkpoint(made);
    if (!report) {
      return report.error();
    }
    for (const std::string& remark : report->remarks) {
      log_info("{}", remark);
    }
    return {};
  });
}

Result<std::string> prepare_engine(const ModelSource& source, const LlmOptions& options) {
  if (source.kind == SourceKind::kEngine) {
    return source.path;
  }
  convert::ConvertOptions convert;
  convert.dtype = options.dtype;
  convert.qformat = options.qformat;
  convert.group_size = options.group_size;
  Result<std::string> checkpoint = prepare_checkpoint(source, options.cache_dir, convert);
  if (!checkpoint) {
    return checkpoint.error();
  }
  return build_into_cache(*checkpoint, options);
}

}  // namespace zonda::api
