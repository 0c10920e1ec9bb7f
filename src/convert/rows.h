// Reads rows of a planned weight from its source and turns them into rows of the checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "convert/plan.h"

namespace zonda::convert {

// Rows of one weight in the checkpoint's type; owns what view() points to. Reused between jobs.
class RowBuffer {
 public:
  // Rows [first_row, first_row + rows) of the checkpoint's order. Errors name file, tensor and
  // index of a non-finite value or of one that the type cannot hold.
  Result<void> fill(const Source& source, const PlannedWeight& weight, int64_t first_row,
                    int64_t rows);
  // Valid until the next fill; type.rows is the number of rows.
  WeightView view() const;

 private:
  // The stored row of one checkpoint row.
  struct Origin {
    const PlannedPart* part = nullptr;
    int64_t row = 0;  // of the part, as stored
  };
  static Origin origin(const Source& source, const PlannedWeight& weight, int64_t row);

  Result<void> fill_exact(const Source& source, const Origin& from, int64_t index);
  Result<void> fill_fp8(const Source& source, const Origin& from, int64_t index);
  Result<void> fill_values(const Source& source, const PlannedWeight& weight, const Origin& from,
                           int64_t index);

  WeightType type_;
  std::vector<uint8_t> data_;
  std::vector<uint16_t> scales_;
  std::vector<uint16_t> minima_;
  std::vector<float> row_scales_;  // fp8
  std::vector<float> values_;      // of one row
};

// Sets tensor_scale of the weights that become fp8 with one scale, which needs a look at all their
// values. `workers` threads, 0: one per core. Errors as RowBuffer::fill.
Result<void> find_tensor_scales(const Source& source, std::vector<PlannedWeight>& weights,
                                int32_t workers);

// A vector weight as float32 [rows].
Result<std::vector<float>> read_vector(const Source& source, const PlannedWeight& weight);

// The row of a GGUF tensor that holds row `row` of the model: each head's two halves are
// interleaved there. heads 0: not permuted.
int64_t stored_row(int64_t row, int64_t rows, int32_t heads);

}  // namespace zonda::convert
