// rankN.engine: a versioned header, the plan as JSON and the packed weights, each with its
// checksum. See docs/formats.md. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"
#include "engine/plan.h"

namespace zonda::engine {

// Readers accept files from kOldestEngineVersion to kEngineVersion.
inline constexpr uint32_t kEngineVersion = 3;
inline constexpr uint32_t kOldestEngineVersion = 3;
inline constexpr int64_t kWeightAlignment = 4096;  // of matrices within the file

// A mapped engine file; `weights` stays valid as long as it lives.
struct EngineFile {
  MappedFile file;
  EnginePlan plan;
  std::span<const std::byte> weights;
};

// Checks header, plan and, if asked, the weights' checksum before anything is used. kCorrupt or
// kUnsupported (another version, with the rebuild command).
Result<EngineFile> open_engine_file(const std::string& path, bool verify_weights);
// An engine folder or file -> the file.
std::string engine_file_path(const std::string& path);

// Writes an engine file front to back: weights in order of their offsets, then the plan. Incomplete
// files are removed.
class EngineFileWriter {
 public:
  static Result<EngineFileWriter> create(const std::string& path);
  EngineFileWriter(EngineFileWriter&&) noexcept;
  EngineFileWriter& operator=(EngineFileWriter&&) = delete;
  ~EngineFileWriter();

  // Appends bytes at the next multiple of kWeightAlignment and returns their offset in the weights
  // section.
  Result<int64_t> append(std::span<const std::byte> bytes);
  // Maps what append() has written so far; the weights section starts at kWeightAlignment.
  Result<MappedFile> map() const;
  // Writes the plan and the header; the file is complete. Returns its size in bytes.
  Result<int64_t> finish(const EnginePlan& plan);

 private:
  struct State;
  explicit EngineFileWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace zonda::engine
