// The weights of a checkpoint, packed into an engine file.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "build/weight_source.h"
#include "device/buffer.h"

namespace zonda::build {
namespace {

constexpr int64_t kVectorAlignment = 64;  // bytes, within the one block that holds all vectors

// What is stored as fp8 and not made here may hold anything.
Result<void> check_fp8(const std::string& name, const WeightView& view) {
  const WeightType& type = view.type;
  if (type.format != WeightFormat::kFloat8E4M3) {
    return {};
  }
  const auto* codes = static_cast<const uint8_t*>(view.data);
  for (int64_t row = 0; row < type.rows; ++row) {
    if (!std::isfinite(view.row_scale(row)) || view.row_scale(row) < 0.0f) {
      return corrupt("[build] {} has the scale {} at row {}, expected a finite one, not negative.",
                     name, view.row_scale(row), row);
    }
    const uint8_t* begin = codes + row * type.cols;
    const uint8_t* nan = std::find_if(begin, begin + type.cols,
                                      [](uint8_t code) { return (code & 0x7fu) == 0x7fu; });
    if (nan != begin + type.cols) {
      return corrupt("[build] {} holds the fp8 code {:#04x}, which is NaN, at row {}, column {}.",
                     name, *nan, row, nan - begin);
    }
  }
  return {};
}

Result<void> write_matrix(const checkpoint::Checkpoint& checkpoint, const engine::Backend& backend,
                          engine::PlanMatrix& matrix, engine::EngineFileWriter& writer) {
  std::vector<WeightView> views;
  for (const std::string& source : matrix.sources) {
    const Result<WeightView> view = checkpoint.weight(source);
    if (!view.ok()) {
      return view.error();
    }
    if (Result<void> checked = check_fp8(source, *view); !checked.ok()) {
      return checked;
    }
    views.push_back(*view);
  }
  Result<device::Buffer> packed = device::Buffer::allocate(static_cast<size_t>(matrix.bytes));
  if (!packed.ok()) {
    return packed.error();
  }
  const Result<void> done = backend.pack(matrix.packed, views, packed->data());
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

class StoredWeights final : public WeightSource {
 public:
  StoredWeights(checkpoint::Checkpoint checkpoint, OrderedJson config)
      : checkpoint_(std::move(checkpoint)), config_(std::move(config)) {}

  const std::string& folder() const override { return checkpoint_.folder(); }
  const OrderedJson& config() const override { return config_; }
  Result<WeightType> type(std::string_view name) const override {
    const Result<WeightView> view = checkpoint_.weight(name);
    return view.ok() ? Result<WeightType>(view->type) : view.error();
  }
  Result<int64_t> vector_size(std::string_view name) const override {
    const auto values = checkpoint_.vector(name);
    return values.ok() ? Result<int64_t>(static_cast<int64_t>(values->size())) : values.error();
  }
  Result<void> write(engine::EnginePlan& plan, const engine::Backend& backend,
                     engine::EngineFileWriter& writer) const override {
    for (engine::PlanMatrix& matrix : plan.matrices) {
      if (Result<void> written = write_matrix(checkpoint_, backend, matrix, writer);
          !written.ok()) {
        return written;
      }
    }
    return write_vectors(checkpoint_, plan, writer);
  }

 private:
  checkpoint::Checkpoint checkpoint_;
  OrderedJson config_;
};

}  // namespace

Result<std::unique_ptr<WeightSource>> open_checkpoint(const std::string& folder) {
  Result<checkpoint::Checkpoint> checkpoint = checkpoint::Checkpoint::open(folder);
  if (!checkpoint.ok()) {
    return checkpoint.error();
  }
  Result<OrderedJson> config = parse_ordered_json_file(folder + "/config.json");
  if (!config.ok()) {
    return config.error();
  }
  return std::unique_ptr<WeightSource>(
      std::make_unique<StoredWeights>(std::move(*checkpoint), std::move(*config)));
}

}  // namespace zonda::build
