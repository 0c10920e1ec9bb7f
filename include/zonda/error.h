// The one way a Zonda call reports failure: a closed list of codes and one sentence with the
// values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace zonda {

enum class ErrorCode : uint8_t {
  kInvalidArgument,  // the caller's value is wrong; the message names field, value and limit
  kNotFound,         // a file, tensor or key that must exist does not
  kUnsupported,      // well-formed, but this build, device or version cannot do it
  kCorrupt,          // stored data contradicts itself: truncated, overlapping, bad checksum
  kCapacity,         // can never fit the configured memory, length or batch limits
  kCancelled,        // the caller withdrew the request
  kIo,               // the operating system refused
  kInternal,         // a fault of ours that was caught
};

// The code's name as printed: "invalid argument", "not found", ...
const char* error_code_name(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;
};

// A value or an Error. Reading the wrong side aborts: check ok() first.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return checked<0>(state_); }
  const T& value() const& { return checked<0>(state_); }
  T&& value() && { return std::move(checked<0>(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return checked<1>(state_); }

 private:
  template <size_t I, typename S>
  static auto& checked(S& state) {
    if (state.index() != I) {
      std::abort();
    }
    return std::get<I>(state);
  }
  std::variant<T, Error> state_;
};

// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    if (ok()) {
      std::abort();
    }
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace zonda
