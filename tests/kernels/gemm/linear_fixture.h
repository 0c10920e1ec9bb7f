// Random matrices and calls for the tests of linears.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/buffer.h"
#include "kernels/gemm/linear.h"

namespace zonda::kernels::testing {

struct FormatCase {
  WeightFormat format;
  int32_t group_size = 0;
  bool has_minimum = false;
};

// What processors take.
inline std::vector<FormatCase> all_formats() {
  std::vector<FormatCase> cases = {
      {WeightFormat::kFloat32}, {WeightFormat::kFloat16}, {WeightFormat::kBFloat16}};
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const int32_t group : {32, 64, 128, 0}) {
      cases.push_back({format, group, false});
      cases.push_back({format, group, true});
    }
  }
  return cases;
}

// What CUDA kernels take.
inline std::vector<FormatCase> cuda_formats() {
  std::vector<FormatCase> formats = all_formats();
  std::erase_if(formats, [](const FormatCase& f) { return f.format == WeightFormat::kFloat32; });
  formats.insert(formats.begin(), {WeightFormat::kFloat8E4M3});
  return formats;
}

inline std::string case_name(const FormatCase& format) {
  std::string name(weight_format_name(format.format));
  if (is_integer(format.format)) {
    name += "_g" + std::to_string(format.group_size) + (format.has_minimum ? "_minimum" : "");
  }
  return name;
}

// A row-major matrix that owns its storage.
class RandomMatrix {
 public:
  RandomMatrix(const FormatCase& format, int64_t rows, int64_t cols, uint32_t seed) : rng_(seed) {
    view_.type = {format.format, rows, cols, format.group_size, format.has_minimum};
    data_.resize(static_cast<size_t>(weight_data_bytes(view_.type)) + 1);
    if (format.format == WeightFormat::kFloat8E4M3) {
      fill_fp8();
    } else if (is_quantized(format.format)) {
      fill_integers();
    } else {
      fill_floats();
    }
    view_.data = data_.data();
  }

  const WeightView& view() const { return view_; }
  std::vector<std::byte>& data() { return data_; }
  std::vector<uint16_t>& scales() { return scales_; }

 private:
  // Every code but NaN.
  void fill_fp8() {
    for (std::byte& byte : data_) {
      byte = static_cast<std::byte>(rng_());
      byte = (byte & std::byte{0x7f}) == std::byte{0x7f} ? std::byte{0x01} : byte;
    }
    std::uniform_real_distribution<float> scale(0.0005f, 0.002f);
    for (int64_t row = 0; row < view_.type.rows; ++row) {
      row_scales_.push_back(scale(rng_));
    }
    view_.row_scales = row_scales_.data();
  }

  void fill_integers() {
    for (std::byte& byte : data_) {
      byte = static_cast<std::byte>(rng_());
    }
    const auto groups = static_cast<size_t>(view_.type.rows * view_.type.groups());
    std::uniform_real_distribution<float> scale(0.001f, 0.02f);
    // The middle of u: weights of both signs.
    const float zero = view_.type.format == WeightFormat::kInt8 ? 128.0f : 8.0f;
    for (size_t i = 0; i < groups; ++i) {
      scales_.push_back(float_to_f16(i % 17 == 3 ? 0.0f : scale(rng_)));
      minima_.push_back(float_to_f16(-zero * scale(rng_)));
    }
    view_.scales = scales_.data();
    view_.minima = view_.type.has_minimum ? minima_.data() : nullptr;
  }

  void fill_floats() {
    std::normal_distribution<float> value(0.0f, 0.3f);
    for (int64_t i = 0; i < view_.type.rows * view_.type.cols; ++i) {
      const float number = value(rng_);
      if (view_.type.format == WeightFormat::kFloat32) {
        std::memcpy(data_.data() + i * 4, &number, 4);
      } else {
        const uint16_t bits = view_.type.format == WeightFormat::kFloat16 ? float_to_f16(number)
                                                                          : float_to_bf16(number);
        std::memcpy(data_.data() + i * 2, &bits, 2);
      }
    }
  }

  std::mt19937 rng_;
  WeightView view_;
  std::vector<std::byte> data_;
  std::vector<uint16_t> scales_;
  std::vector<uint16_t> minima_;
  std::vector<float> row_scales_;
};

inline std::vector<float> random_floats(int64_t count, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> value(0.0f, 1.0f);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& number : out) {
    number = value(rng);
  }
  return out;
}

inline device::Buffer must_allocate(int64_t bytes) {
  Result<device::Buffer> buffer = device::Buffer::allocate(static_cast<size_t>(bytes));
  if (!buffer) {
    std::abort();
  }
  return std::move(buffer).value();
}

// Packs the sources; aborts when packing refuses.
inline device::Buffer must_pack(const PackedType& packed, std::span<const WeightView> sources) {
  device::Buffer out = must_allocate(packed_bytes(packed));
  if (!pack_weights(packed, sources, out.data())) {
    std::abort();
  }
  return out;
}

// Levels that this machine can run, lowest first.
inline std::vector<device::CpuIsa> machine_levels() {
  std::vector<device::CpuIsa> levels;
  for (int i = 0; i <= static_cast<int>(device::detect_cpu_isa()); ++i) {
    levels.push_back(static_cast<device::CpuIsa>(i));
  }
  return levels;
}

}  // namespace zonda::kernels::testing
