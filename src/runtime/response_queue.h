// Responses on their way from the step thread to whoever waits for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "zonda/executor.h"

namespace zonda::runtime {

// One channel a request, from open() until its final response is taken or it is abandoned. All
// functions may be called from any thread.
class ResponseQueue {
 public:
  using Timeout = Executor::Timeout;

  void open(RequestId id);
  // Responses of requests that are not open are dropped.
  void push(std::vector<Response> responses);
  void abandon(RequestId id);
  // From now on nobody waits; what is ready can still be taken.
  void close();

  std::vector<Response> take_any(Timeout timeout);
  // kNotFound if the id is not open.
  Result<std::vector<Response>> take(RequestId id, Timeout timeout);
  size_t num_ready(std::optional<RequestId> id) const;
  size_t num_open() const;

 private:
  struct Channel {
    std::vector<Response> ready;
    std::condition_variable changed;
    bool gone = false;  // abandoned, or its final response was taken
  };
  using Channels = std::map<RequestId, std::shared_ptr<Channel>>;
  std::vector<Response> drain(Channels::iterator at);

  mutable std::mutex mutex_;
  std::condition_variable any_changed_;
  Channels channels_;
  size_t num_ready_ = 0;
  bool closed_ = false;
};

}  // namespace zonda::runtime
