// SPDX-License-Identifier: Apache-2.0
#include "build/weights.h"

#include <cstring>

#include "base/error.h"
#include "device/buffer.h"

namespace zonda::build {
namespace {

constexpr int64_t kVectorAlignment = 64;  // bytes, within the one block that holds all vectors

Result<void> write_matrix(const checkpoint::Checkpoint& checkpoint, engine::PlanMatrix& matrix,
                          engine::EngineFileWriter& writer) {
  std::vector<WeightView> views;
  for (const std::string& source : matrix.sources) {
    const Result<WeightView> view = checkpoint.weight(source);
    if (!view.ok()) {
      return view.error();
    }
    views.push_back(*view);
  }
  Result<device::Buffer> packed = device::Buffer::allocate(static_cast<size_t>(matrix.bytes));
  if (!packed.ok()) {
    return packed.error();
  }
  const Result<void> done = kernels::pack_weights(matrix.packed, views, packed->data());
  if (!done.ok()) {
    return make_error(done.error().code, "{} ({})", done.error().message, matrix.sources[0]);
  }
  const Result<int64_t> offset = writer.append({packed->data(), packed->size()});
  if (!offset.ok()) {
    return offset.error();
  }
  matrix.offset = *offset;
  for (const std::string& source : matrix.sources) {
    checkpoint.release(source);
  }
  return {};
}

Result<void> write_vectors(const checkpoint::Checkpoint& checkpoint, engine::EnginePlan& plan,
                           engine::EngineFileWriter& writer) {
  std::vector<std::byte> block;
  for (engine::PlanVector& vector : plan.vectors) {
    const size_t aligned =
        (block.size() + kVectorAlignment - 1) / kVectorAlignment * kVectorAlignment;
    vector.offset = static_cast<int64_t>(aligned);
    block.resize(aligned + static_cast<size_t>(vector.size) * sizeof(float));
    std::byte* out = block.data() + aligned;
    for (const std::string& source : vector.sources) {
      const auto values = checkpoint.vector(source);
      if (!values.ok()) {
        return values.error();
      }
      std::memcpy(out, values->data(), values->size_bytes());
      out += values->size_bytes();
    }
  }
  const Result<int64_t> offset = writer.append(block);
  if (!offset.ok()) {
    return offset.error();
  }
  for (engine::PlanVector& vector : plan.vectors) {
    vector.offset += *offset;
  }
  return {};
}

}  // namespace

Result<void> write_weights(const checkpoint::Checkpoint& checkpoint, engine::EnginePlan& plan,
                           engine::EngineFileWriter& writer) {
  for (engine::PlanMatrix& matrix : plan.matrices) {
    if (Result<void> written = write_matrix(checkpoint, matrix, writer); !written.ok()) {
      return written;
    }
  }
  return write_vectors(checkpoint, plan, writer);
}

}  // namespace zonda::build
