// A tiny model as a Hugging Face folder whose linears are fp8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "convert/tiny_model.h"

namespace zonda::convert {

struct Fp8FolderOptions {
  bool per_channel = true;  // weight_scale [rows, 1], else []
  DType scale_dtype = DType::kFloat32;
  bool input_scales = false;  // calibrated ones beside the weights
  float same_scale = 0.0f;    // not 0: of every tensor
};

inline bool is_fp8_linear(const std::string& name) { return name.ends_with("_proj.weight"); }

// Stored tensors by name; edit, then write.
struct Fp8Folder {
  Json config;
  std::vector<checkpoint::TensorSpec> specs;
  std::vector<std::string> bytes;

  // The model's linears become what their codes mean.
  Fp8Folder(TinyModel& model, const Fp8FolderOptions& options) : config(model.config) {
    config["quantization_config"] = Json::parse(
        R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups":
            {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}})");
    for (auto& [name, matrix] : model.weights) {
      if (is_fp8_linear(name)) {
        add_linear(name, matrix, options);
      } else {
        add(name, DType::kFloat32, matrix.shape(),
            {reinterpret_cast<const char*>(matrix.values.data()), matrix.values.size() * 4});
      }
    }
  }

  size_t find(const std::string& name) const {
    return static_cast<size_t>(
        std::find_if(specs.begin(), specs.end(), [&](const auto& s) { return s.name == name; }) -
        specs.begin());
  }
  void erase(const std::string& name) {
    bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(find(name)));
    specs.erase(specs.begin() + static_cast<ptrdiff_t>(find(name)));
  }
  void add(const std::string& name, DType dtype, const std::vector<int64_t>& shape,
           std::string content) {
    specs.push_back({name, dtype, shape});
    bytes.push_back(std::move(content));
  }
  void write(const std::string& folder) const {
    std::filesystem::create_directories(folder);
    ASSERT_TRUE(write_file(folder + "/config.json", dump_json(config, 2)).ok());
    checkpoint::SafetensorsWriter writer =
        checkpoint::SafetensorsWriter::create(folder + "/model.safetensors", specs, {}).value();
    for (size_t i = 0; i < specs.size(); ++i) {
      ASSERT_TRUE(writer.write(specs[i].name, 0, std::as_bytes(std::span(bytes[i]))).ok());
    }
    ASSERT_TRUE(writer.finish().ok());
  }

 private:
  void add_linear(const std::string& name, Matrix& matrix, const Fp8FolderOptions& options) {
    std::string codes;
    std::string scales;
    const auto largest = [&](int64_t first, int64_t count) {
      float most = 0.0f;
      for (int64_t i = first; i < first + count; ++i) {
        most = std::max(most, std::abs(matrix.values[static_cast<size_t>(i)]));
      }
      return most;
    };
    for (int64_t row = 0; row < matrix.rows; ++row) {
      const float most = options.per_channel ? largest(row * matrix.cols, matrix.cols)
                                             : largest(0, matrix.rows * matrix.cols);
      const float exact = options.same_scale != 0.0f ? options.same_scale : most / 448.0f;
      const bool is_bf16 = options.scale_dtype == DType::kBFloat16;
      const float scale = is_bf16 ? bf16_to_float(float_to_bf16(exact)) : exact;
      if (options.per_channel || row == 0) {
        const uint16_t half = float_to_bf16(scale);
        scales.append(
            is_bf16 ? reinterpret_cast<const char*>(&half) : reinterpret_cast<const char*>(&scale),
            is_bf16 ? 2 : 4);
      }
      for (int64_t col = 0; col < matrix.cols; ++col) {
        float& value = matrix.values[static_cast<size_t>(row * matrix.cols + col)];
        const uint8_t code = float_to_f8e4m3(value / scale);
        codes.push_back(static_cast<char>(code));
        value = scale * f8e4m3_to_float(code);
      }
    }
    add(name, DType::kFloat8E4M3, matrix.shape(), codes);
    add(name + "_scale", options.scale_dtype,
        options.per_channel ? std::vector<int64_t>{matrix.rows, 1} : std::vector<int64_t>{},
        scales);
    if (options.input_scales) {
      add(name.substr(0, name.size() - 6) + "input_scale", DType::kFloat32, {},
          std::string("\0\0\x80\x3f", 4));
    }
  }
};

}  // namespace zonda::convert
