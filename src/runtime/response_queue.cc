// ResponseQueue: a waiter for one request sleeps on that request's channel alone.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/response_queue.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace zonda::runtime {
namespace {

// Far beyond any use, and far from the overflow of clocks.
constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365);

// Waits for `ready`; without a timeout until it holds.
template <typename Ready>
void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
          const Executor::Timeout& timeout, Ready ready) {
  if (timeout.has_value()) {
    changed.wait_for(lock, std::min(*timeout, kLongestWait), ready);
  } else {
    changed.wait(lock, ready);
  }
}

}  // namespace

void ResponseQueue::open(RequestId id) {
  const std::lock_guard lock(mutex_);
  channels_.emplace(id, std::make_shared<Channel>());
}

void ResponseQueue::push(std::vector<Response> responses) {
  const std::lock_guard lock(mutex_);
  for (Response& response : responses) {
    const auto at = channels_.find(response.request_id);
    if (at != channels_.end()) {
      at->second->ready.push_back(std::move(response));
      ++num_ready_;
      at->second->changed.notify_all();
    }
  }
  any_changed_.notify_all();
}

void ResponseQueue::abandon(RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto at = channels_.find(id);
  if (at != channels_.end()) {
    num_ready_ -= at->second->ready.size();
    at->second->gone = true;
    at->second->changed.notify_all();
    channels_.erase(at);
  }
}

void ResponseQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& [id, channel] : channels_) {
    channel->changed.notify_all();
  }
  any_changed_.notify_all();
}

std::vector<Response> ResponseQueue::drain(Channels::iterator at) {
  std::vector<Response> responses = std::exchange(at->second->ready, {});
  num_ready_ -= responses.size();
  if (!responses.empty() && responses.back().is_final) {
    at->second->gone = true;
    at->second->changed.notify_all();
    channels_.erase(at);
  }
  return responses;
}

std::vector<Response> ResponseQueue::take_any(Timeout timeout) {
  std::unique_lock lock(mutex_);
  wait(any_changed_, lock, timeout, [this] { return num_ready_ > 0 || closed_; });
  std::vector<Response> responses;
  for (auto at = channels_.begin(); at != channels_.end();) {
    const auto next = std::next(at);
    auto ready = drain(at);
    std::move(ready.begin(), ready.end(), std::back_inserter(responses));
    at = next;
  }
  return responses;
}

Result<std::vector<Response>> ResponseQueue::take(RequestId id, Timeout timeout) {
  std::unique_lock lock(mutex_);
  const auto found = channels_.find(id);
  if (found == channels_.end()) {
    return not_found("[executor] request {} is unknown or its final response was taken.", id);
  }
  const std::shared_ptr<Channel> channel = found->second;
  wait(channel->changed, lock, timeout,
       [&] { return !channel->ready.empty() || channel->gone || closed_; });
  if (channel->gone) {
    return not_found("[executor] request {} was abandoned or its final response was taken.", id);
  }
  return drain(channels_.find(id));
}

size_t ResponseQueue::num_ready(std::optional<RequestId> id) const {
  const std::lock_guard lock(mutex_);
  if (!id.has_value()) {
    return num_ready_;
  }
  const auto at = channels_.find(*id);
  return at == channels_.end() ? 0 : at->second->ready.size();
}

size_t ResponseQueue::num_open() const {
  const std::lock_guard lock(mutex_);
  return channels_.size();
}

}  // namespace zonda::runtime
