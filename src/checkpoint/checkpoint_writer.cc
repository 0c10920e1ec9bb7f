// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace zonda::checkpoint {

void CheckpointWriter::Plan::add_weight(std::string_view name, const WeightType& type) {
  StoredWeight stored = stored_weight(name, type);
  tensors_.push_back(std::move(stored.data));
  if (stored.scales) {
    tensors_.push_back(std::move(*stored.scales));
  }
  if (stored.minima) {
    tensors_.push_back(std::move(*stored.minima));
  }
  if (!stored.description.empty()) {
    metadata_.emplace(name, std::move(stored.description));
  }
}

void CheckpointWriter::Plan::add_vector(std::string_view name, int64_t length) {
  tensors_.push_back({std::string(name), DType::kFloat32, {length}});
}

Result<CheckpointWriter> CheckpointWriter::create(const std::string& folder, const Plan& plan,
                                                  Options options) {
  Result<StagedFolder> staged = StagedFolder::create(folder, options.replace);
  if (!staged.ok()) {
    return staged.error();
  }
  Result<SafetensorsWriter> weights = SafetensorsWriter::create(
      staged->path() + "/rank0.safetensors", plan.tensors(), plan.metadata());
  if (!weights.ok()) {
    return weights.error();
  }
  return CheckpointWriter(std::move(*staged), std::move(*weights));
}

Result<void> CheckpointWriter::write_rows(std::string_view name, int64_t first_row,
                                          const WeightView& view) {
  const StoredWeight stored = stored_weight(name, view.type);
  const auto write = [&](const TensorSpec& spec, const void* data) -> Result<void> {
    const int64_t row_values = spec.shape.size() == 2 ? spec.shape[1] : 1;
    const auto row_bytes = static_cast<uint64_t>(row_values * dtype_size(spec.dtype));
    return weights_.write(
        spec.name, static_cast<uint64_t>(first_row) * row_bytes,
        {static_cast<const std::byte*>(data), static_cast<size_t>(view.type.rows) * row_bytes});
  };
  Result<void> done = write(stored.data, view.data);
  if (done.ok() && stored.scales && view.type.format != WeightFormat::kFloat8E4M3) {
    done = write(*stored.scales, view.scales);
  } else if (done.ok() && stored.scales && view.type.per_tensor) {
    // One scale of all rows comes with the first.
    if (first_row == 0) {
      done = weights_.write(stored.scales->name, 0, std::as_bytes(std::span(view.row_scales, 1)));
    }
  } else if (done.ok() && stored.scales) {
    done = write(*stored.scales, view.row_scales);
  }
  if (done.ok() && stored.minima) {
    done = write(*stored.minima, view.minima);
  }
  return done;
}

Result<void> CheckpointWriter::write_vector(std::string_view name, std::span<const float> values) {
  return weights_.write(name, 0, std::as_bytes(values));
}

Result<void> CheckpointWriter::finish(const OrderedJson& config) {
  if (Result<void> done = weights_.finish(); !done.ok()) {
    return done;
  }
  Result<void> written = write_file(folder_.path() + "/config.json", dump_json(config, 2) + "\n");
  if (!written.ok()) {
    return written;
  }
  return folder_.commit();
}

}  // namespace zonda::checkpoint
