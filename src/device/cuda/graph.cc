// Stream capture and instantiation.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/graph.h"

#include <memory>
#include <type_traits>
#include <utility>

#include "device/cuda/cuda_status.h"

namespace zonda::device::cuda {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { (void)cudaGraphDestroy(graph); }
};
using OwnedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

}  // namespace

Result<Graph> Graph::capture(const Stream& stream, const std::function<Result<void>()>& issue) {
  // Other threads may allocate and load meanwhile.
  const cudaError_t begun =
      cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal);
  if (auto status = check(begun, "[Graph] the start of the capture"); !status) {
    return status.error();
  }
  const Result<void> issued = issue();
  cudaGraph_t recorded = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream.handle(), &recorded);
  const OwnedGraph owned(recorded);
  if (!issued) {
    (void)cudaGetLastError();  // a capture broken by the fault that is reported
    return issued.error();
  }
  if (auto status = check(ended, "[Graph] the capture"); !status) {
    return status.error();
  }
  Graph graph;
  const cudaError_t counted = cudaGraphGetNodes(recorded, nullptr, &graph.num_nodes_);
  if (auto status = check(counted, "[Graph] counting the nodes"); !status) {
    return status.error();
  }
  const cudaError_t instantiated = cudaGraphInstantiate(&graph.executable_, recorded, 0);
  if (auto status = check(instantiated, "[Graph] the instantiation"); !status) {
    return status.error();
  }
  return graph;
}

Graph::Graph(Graph&& other) noexcept
    : executable_(std::exchange(other.executable_, nullptr)),
      num_nodes_(std::exchange(other.num_nodes_, 0)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(executable_, other.executable_);
  std::swap(num_nodes_, other.num_nodes_);
  return *this;
}

Graph::~Graph() {
  if (executable_ != nullptr) {
    (void)cudaGraphExecDestroy(executable_);
  }
}

Result<void> Graph::launch(const Stream& stream) const {
  return check(cudaGraphLaunch(executable_, stream.handle()), "[Graph] the launch");
}

}  // namespace zonda::device::cuda
