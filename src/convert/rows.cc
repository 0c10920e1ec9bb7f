// SPDX-License-Identifier: Apache-2.0
#include "convert/rows.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"
#include "convert/quantize.h"

namespace zonda::convert {
namespace {

Result<void> check_finite(const Source& source, const PlannedPart& part, int64_t row,
                          std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      const std::string& name = source.part_name(part.part);
      return corrupt(
          "[convert] {}: tensor {} holds {} at row {}, column {}; expected finite values.",
          source.file_of(name), name, values[i], row, i);
    }
  }
  return {};
}

// Finite values of one stored row.
Result<void> read_row(const Source& source, const PlannedPart& part, int64_t row, float* out) {
  const SourceTensor& tensor = part.tensor;
  const std::byte* bytes = tensor.row(row).data();
  if (tensor.is_fp8()) {
    const WeightType type{WeightFormat::kFloat8E4M3, 1, tensor.cols, 0, false};
    const float scale = tensor.fp8_scale(row);
    WeightView view{type, bytes};
    view.row_scales = &scale;
    dequantize_row(view, 0, out);
  } else {
    checkpoint::dequantize_blocks(tensor.type, bytes, tensor.cols, out);
  }
  return check_finite(source, part, row, {out, static_cast<size_t>(tensor.cols)});
}

// One row as a 16- or 32-bit float; the column whose value became infinite, or -1.
int64_t cast_row(std::span<const float> values, WeightFormat format, uint8_t* out) {
  if (format == WeightFormat::kFloat32) {
    std::memcpy(out, values.data(), values.size_bytes());
    return -1;
  }
  auto* halves = reinterpret_cast<uint16_t*>(out);
  int64_t overflow = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    if (format == WeightFormat::kBFloat16) {
      halves[i] = float_to_bf16(values[i]);
      overflow = (halves[i] & 0x7fffu) == 0x7f80u ? static_cast<int64_t>(i) : overflow;
    } else {
      halves[i] = float_to_f16(values[i]);
      overflow = (halves[i] & 0x7fffu) == 0x7c00u ? static_cast<int64_t>(i) : overflow;
    }
  }
  return overflow;
}

}  // namespace

int64_t stored_row(int64_t row, int64_t rows, int32_t heads) {
  if (heads == 0) {
    return row;
  }
  const int64_t head_size = rows / heads;
  const int64_t within = row % head_size;
  const int64_t half = head_size / 2;
  return row - within + 2 * (within % half) + within / half;
}

RowBuffer::Origin RowBuffer::origin(const Source& source, const PlannedWeight& weight,
                                    int64_t row) {
  for (const PlannedPart& planned : weight.parts) {
    const models::WeightPart& part = planned.part;
    if (row < part.rows) {
      return {&planned, stored_row(row, part.rows, source.gguf ? part.gguf_permuted_heads : 0)};
    }
    row -= part.rows;
  }
  CHECK(false);
}

Result<void> RowBuffer::fill(const Source& source, const PlannedWeight& weight, int64_t first_row,
                             int64_t rows) {
  type_ = weight.type;
  type_.rows = rows;
  data_.resize(static_cast<size_t>(weight_data_bytes(type_)));
  scales_.resize(static_cast<size_t>(rows * type_.groups()));
  minima_.resize(type_.has_minimum ? scales_.size() : 0);
  const bool is_fp8 = type_.format == WeightFormat::kFloat8E4M3;
  row_scales_.resize(is_fp8 ? static_cast<size_t>(rows) : 0);
  values_.resize(static_cast<size_t>(type_.cols));
  for (int64_t index = 0; index < rows; ++index) {
    const Origin from = origin(source, weight, first_row + index);
    Result<void> done = !weight.exact ? fill_values(source, weight, from, index)
                        : is_fp8      ? fill_fp8(source, from, index)
                                      : fill_exact(source, from, index);
    if (!done.ok()) {
      return done;
    }
  }
  return {};
}

Result<void> RowBuffer::fill_exact(const Source& source, const Origin& from, int64_t index) {
  const int64_t row_bytes = weight_data_bytes(type_) / type_.rows;
  uint16_t* scales = scales_.data() + index * type_.groups();
  uint16_t* minima = type_.has_minimum ? minima_.data() + index * type_.groups() : nullptr;
  Result<void> done =
      checkpoint::repack_blocks(from.part->tensor.type, from.part->tensor.row(from.row).data(),
                                type_, {data_.data() + index * row_bytes, scales, minima});
  if (!done.ok()) {
    return done;
  }
  for (int64_t group = 0; group < type_.groups(); ++group) {
    const bool finite = std::isfinite(f16_to_float(scales[group])) &&
                        (minima == nullptr || std::isfinite(f16_to_float(minima[group])));
    if (!finite) {
      const std::string& name = source.part_name(from.part->part);
      return corrupt("[convert] {}: tensor {} has a non-finite scale at row {}, column {}.",
                     source.file_of(name), name, from.row, group * type_.group_size);
    }
  }
  return {};
}

// The codes as they are; decoding them finds those that are NaN.
Result<void> RowBuffer::fill_fp8(const Source& source, const Origin& from, int64_t index) {
  if (Result<void> done = read_row(source, *from.part, from.row, values_.data()); !done.ok()) {
    return done;
  }
  const SourceTensor& tensor = from.part->tensor;
  std::memcpy(data_.data() + index * type_.cols, tensor.row(from.row).data(),
              static_cast<size_t>(type_.cols));
  row_scales_[static_cast<size_t>(index)] = tensor.fp8_scale(from.row);
  return {};
}

Result<void> RowBuffer::fill_values(const Source& source, const PlannedWeight& weight,
                                    const Origin& from, int64_t index) {
  if (Result<void> done = read_row(source, *from.part, from.row, values_.data()); !done.ok()) {
    return done;
  }
  const std::string& name = source.part_name(from.part->part);
  uint8_t* out = data_.data() + index * (weight_data_bytes(type_) / type_.rows);
  if (!is_quantized(type_.format)) {
    const int64_t column = cast_row(values_, type_.format, out);
    if (column >= 0) {
      return unsupported(
          "[convert] {}: tensor {} holds {} at row {}, column {}, which {} cannot "
          "hold; choose another dtype.",
          source.file_of(name), name, values_[static_cast<size_t>(column)], from.row, column,
          weight_format_name(type_.format));
    }
    return {};
  }
  if (type_.format == WeightFormat::kFloat8E4M3) {
    const float scale =
        type_.per_tensor ? weight.tensor_scale : fp8_scale(largest_magnitude(values_));
    row_scales_[static_cast<size_t>(index)] = scale;
    quantize_fp8(values_, scale, out);
    return {};
  }
  uint16_t* scales = scales_.data() + index * type_.groups();
  uint16_t* minima = type_.has_minimum ? minima_.data() + index * type_.groups() : nullptr;
  if (!quantize_row(values_, type_, {out, scales, minima})) {
    return unsupported(
        "[convert] {}: tensor {} has values at row {} whose {} scale overflows "
        "float16; leave it out with exclude_modules.",
        source.file_of(name), name, from.row, weight_format_name(type_.format));
  }
  return {};
}

WeightView RowBuffer::view() const {
  return {type_, data_.data(), scales_.empty() ? nullptr : scales_.data(),
          minima_.empty() ? nullptr : minima_.data(),
          row_scales_.empty() ? nullptr : row_scales_.data()};
}

Result<void> find_tensor_scales(const Source& source, std::vector<PlannedWeight>& weights,
                                int32_t workers) {
  struct Row {
    PlannedWeight* weight;
    const PlannedPart* part;
  };
  std::vector<Row> parts;
  for (PlannedWeight& weight : weights) {
    if (weight.type.per_tensor && !weight.exact) {
      weight.tensor_scale = fp8_scale(0.0f);
      for (const PlannedPart& part : weight.parts) {
        parts.push_back({&weight, &part});
      }
    }
  }
  std::mutex mutex;  // guards what follows
  std::optional<Error> fault;
  size_t fault_part = 0;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < parts.size(); i = next.fetch_add(1)) {
      const PlannedPart& part = *parts[i].part;
      std::vector<float> values(static_cast<size_t>(part.tensor.cols));
      float largest = 0.0f;
      Result<void> done;
      for (int64_t row = 0; row < part.tensor.rows && done.ok(); ++row) {
        done = read_row(source, part, row, values.data());
        largest = std::max(largest, largest_magnitude(values));
      }
      source.release(source.part_name(part.part));
      const std::lock_guard lock(mutex);
      float& scale = parts[i].weight->tensor_scale;
      scale = std::max(scale, fp8_scale(largest));
      if (!done.ok() && (!fault || i < fault_part)) {
        fault = done.error();
        fault_part = i;
      }
    }
  };
  const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> threads;
    for (int32_t i = 1; i < (workers > 0 ? workers : std::max(cores, 1)); ++i) {
      threads.emplace_back(work);
    }
    work();
  }
  return fault ? Result<void>(*fault) : Result<void>();
}

Result<std::vector<float>> read_vector(const Source& source, const PlannedWeight& weight) {
  std::vector<float> values;
  for (const PlannedPart& planned : weight.parts) {
    const SourceTensor& tensor = planned.tensor;
    std::vector<float> stored(static_cast<size_t>(tensor.cols));
    checkpoint::dequantize_blocks(tensor.type, tensor.bytes.data(), tensor.cols, stored.data());
    if (Result<void> done = check_finite(source, planned, 0, stored); !done.ok()) {
      return done.error();
    }
    const int32_t heads = source.gguf ? planned.part.gguf_permuted_heads : 0;
    for (int64_t i = 0; i < tensor.cols; ++i) {
      values.push_back(stored[static_cast<size_t>(stored_row(i, tensor.cols, heads))]);
    }
  }
  return values;
}

}  // namespace zonda::convert
