// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/step_timer.h"

#include <algorithm>
#include <utility>

namespace zonda::engine::cuda {
namespace {

using device::cuda::Event;
using device::cuda::Graph;
using device::cuda::Stream;

constexpr double kLongStep = 12e-3;  // seconds

Result<double> seconds_between(const Event& begin, const Event& end) {
  const Result<float> elapsed = device::cuda::elapsed_ms(begin, end);
  if (!elapsed) {
    return elapsed.error();
  }
  return static_cast<double>(*elapsed) * 1e-3;
}

Result<double> time_graph(const Graph& graph, const Stream& stream) {
  const Result<Event> begin = Event::create(true);
  const Result<Event> end = Event::create(true);
  if (!begin || !end) {
    return begin ? end.error() : begin.error();
  }
  // While the first replay runs, the host puts the second one behind it: no launch is waited for.
  for (const Result<void>& done :
       {graph.launch(stream), begin->record(stream), graph.launch(stream), end->record(stream),
        stream.synchronize()}) {
    if (!done.ok()) {
      return done.error();
    }
  }
  return seconds_between(*begin, *end);
}

Result<std::vector<double>> time_one_by_one(size_t num_calls, const StepTimer::Issue& issue,
                                            const Stream& stream) {
  std::vector<Event> marks;
  for (size_t i = 0; i <= num_calls; ++i) {
    Result<Event> mark = Event::create(true);
    if (!mark) {
      return mark.error();
    }
    if (const Result<void> recorded = mark->record(stream); !recorded.ok()) {
      return recorded.error();
    }
    marks.push_back(std::move(*mark));
    if (const Result<void> issued = i < num_calls ? issue(i, i + 1) : stream.synchronize();
        !issued.ok()) {
      return issued.error();
    }
  }
  std::vector<double> times;
  for (size_t i = 0; i < num_calls; ++i) {
    const Result<double> seconds = seconds_between(marks[i], marks[i + 1]);
    if (!seconds) {
      return seconds.error();
    }
    times.push_back(*seconds);
  }
  return times;
}

}  // namespace

Result<std::vector<double>> StepTimer::time(const StepShapeKey& shape, size_t num_calls,
                                            const Issue& issue, const Stream& stream) {
  if (shape_ != shape || graphs_.empty()) {
    shape_ = shape;
    graphs_.clear();
    if (const Result<void> recorded = record(num_calls, issue, stream); !recorded.ok()) {
      graphs_.clear();
      return recorded.error();
    }
  }
  return is_long_ ? time_one_by_one(num_calls, issue, stream) : time_recorded(stream);
}

Result<void> StepTimer::record(size_t num_calls, const Issue& issue, const Stream& stream) {
  // Kernels load on their first use, which may not be recorded.
  if (Result<void> issued = issue(0, num_calls); !issued.ok()) {
    return issued;
  }
  const auto capture = [&](size_t end) -> Result<void> {
    Result<Graph> graph = Graph::capture(stream, [&] { return issue(0, end); });
    if (!graph) {
      return graph.error();
    }
    graphs_.push_back(std::move(*graph));
    return {};
  };
  if (Result<void> captured = capture(num_calls); !captured.ok()) {
    return captured;
  }
  const Result<double> whole = time_graph(graphs_.front(), stream);
  if (!whole) {
    return whole.error();
  }
  is_long_ = *whole > kLongStep;
  if (is_long_) {
    return {};
  }
  graphs_.clear();
  for (size_t end = 1; end <= num_calls; ++end) {
    if (Result<void> captured = capture(end); !captured.ok()) {
      return captured;
    }
  }
  return {};
}

Result<std::vector<double>> StepTimer::time_recorded(const Stream& stream) const {
  std::vector<double> times;
  double reached = 0.0;
  for (const Graph& graph : graphs_) {
    const Result<double> seconds = time_graph(graph, stream);
    if (!seconds) {
      return seconds.error();
    }
    times.push_back(std::max(*seconds - reached, 0.0));
    reached = std::max(reached, *seconds);
  }
  return times;
}

}  // namespace zonda::engine::cuda
