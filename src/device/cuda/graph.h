// A sequence of launches recorded once and replayed as one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>

#include "device/cuda/stream.h"
#include "zonda/error.h"

namespace zonda::device::cuda {

// Move-only. Replays read and write the addresses that were recorded: their buffers must outlive
// it.
class Graph {
 public:
  // Runs `issue`, which puts work on `stream` and must neither wait nor allocate; nothing of it is
  // executed. Dependent launches keep their dependence. Kernels and libraries load lazily, so run
  // the same work once before. `issue`'s own error comes back unchanged.
  static Result<Graph> capture(const Stream& stream, const std::function<Result<void>()>& issue);
  Graph() = default;
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  // One replay; those of one graph run one after the other.
  Result<void> launch(const Stream& stream) const;
  size_t num_nodes() const { return num_nodes_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
  size_t num_nodes_ = 0;
};

}  // namespace zonda::device::cuda
