// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace zonda::checkpoint {
namespace {

constexpr uint64_t kDataAlignment = 64;

struct Slot {
  uint64_t begin = 0;  // of the data
  uint64_t size = 0;
  std::atomic<uint64_t> written = 0;
};

uint64_t tensor_bytes(const TensorSpec& spec) {
  uint64_t bytes = static_cast<uint64_t>(dtype_size(spec.dtype));
  for (const int64_t dim : spec.shape) {
    CHECK(dim >= 0);
    bytes *= static_cast<uint64_t>(dim);
  }
  return bytes;
}

// The largest power of two up to 64 that divides the tensor's size.
uint64_t size_alignment(const TensorSpec& spec) {
  const uint64_t bytes = tensor_bytes(spec);
  return bytes == 0 ? kDataAlignment
                    : std::min(kDataAlignment, uint64_t{1} << std::countr_zero(bytes));
}

// Larger alignments first: then every tensor starts at a multiple of its own, without holes.
std::vector<const TensorSpec*> layout_order(const std::vector<TensorSpec>& tensors) {
  std::vector<const TensorSpec*> order;
  for (const TensorSpec& spec : tensors) {
    order.push_back(&spec);
  }
  std::stable_sort(order.begin(), order.end(), [](const TensorSpec* a, const TensorSpec* b) {
    return size_alignment(*a) > size_alignment(*b);
  });
  return order;
}

Error write_error(const std::string& path, int code) {
  return io_error("[safetensors] write {}: {}.", path,
                  std::error_code(code, std::generic_category()).message());
}

}  // namespace

struct SafetensorsWriter::State {
  std::string path;
  int fd = -1;
  uint64_t data_begin = 0;  // of the file
  uint64_t data_bytes = 0;
  std::map<std::string, Slot, std::less<>> slots;

  ~State() {
    if (fd >= 0) {
      ::close(fd);
    }
  }

  Result<void> write_at(uint64_t position, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(position));
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count < 0) {
        return write_error(path, errno);
      }
      position += static_cast<uint64_t>(count);
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
    return {};
  }

  // Places every tensor and returns the header's text, padded so that the data is aligned.
  Result<std::string> lay_out(const std::vector<TensorSpec>& tensors, const MetadataMap& metadata) {
    OrderedJson header = OrderedJson::object();
    OrderedJson& notes = header["__metadata__"] = OrderedJson::object();
    notes["format"] = "pt";
    for (const auto& [key, value] : metadata) {
      notes[key] = value;
    }
    for (const TensorSpec* spec : layout_order(tensors)) {
      const auto [entry, inserted] = slots.try_emplace(spec->name);
      if (!inserted) {
        return invalid_argument("[safetensors] {}: tensor {} is declared twice.", path, spec->name);
      }
      entry->second.begin = data_bytes;
      entry->second.size = tensor_bytes(*spec);
      data_bytes += entry->second.size;
      header[spec->name] = {{"dtype", safetensors_dtype_name(spec->dtype)},
                            {"shape", spec->shape},
                            {"data_offsets", {entry->second.begin, data_bytes}}};
    }
    std::string text = dump_json(header);
    text.append((kDataAlignment - (8 + text.size()) % kDataAlignment) % kDataAlignment, ' ');
    return text;
  }
};

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    const std::vector<TensorSpec>& tensors,
                                                    const MetadataMap& metadata) {
  auto state = std::make_unique<State>();
  state->path = path;
  const Result<std::string> text = state->lay_out(tensors, metadata);
  if (!text.ok()) {
    return text.error();
  }
  if (text->size() > kMaxSafetensorsHeader) {
    return over_capacity("[safetensors] {}: a header of {} bytes is above the limit {}.", path,
                         text->size(), kMaxSafetensorsHeader);
  }
  state->fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (state->fd < 0) {
    return write_error(path, errno);
  }
  state->data_begin = 8 + text->size();
  if (::ftruncate(state->fd, static_cast<off_t>(state->data_begin + state->data_bytes)) != 0) {
    return write_error(path, errno);
  }
  const uint64_t length = text->size();
  std::string head(reinterpret_cast<const char*>(&length), 8);
  head += *text;
  if (Result<void> done = state->write_at(0, std::as_bytes(std::span(head))); !done.ok()) {
    return done.error();
  }
  return SafetensorsWriter(std::move(state));
}

Result<void> SafetensorsWriter::write(std::string_view name, uint64_t offset,
                                      std::span<const std::byte> bytes) {
  const auto found = state_->slots.find(name);
  if (found == state_->slots.end()) {
    return internal_error("[safetensors] {}: tensor {} was not declared.", state_->path, name);
  }
  Slot& slot = found->second;
  if (offset > slot.size || bytes.size() > slot.size - offset) {
    return internal_error("[safetensors] {}: bytes {} + {} of tensor {} are beyond its size {}.",
                          state_->path, offset, bytes.size(), name, slot.size);
  }
  slot.written += bytes.size();
  return state_->write_at(state_->data_begin + slot.begin + offset, bytes);
}

Result<void> SafetensorsWriter::finish() {
  for (const auto& [name, slot] : state_->slots) {
    if (slot.written != slot.size) {
      return internal_error("[safetensors] {}: tensor {} got {} of {} bytes.", state_->path, name,
                            slot.written.load(), slot.size);
    }
  }
  const int fd = std::exchange(state_->fd, -1);
  if (::close(fd) != 0) {
    return write_error(state_->path, errno);
  }
  return {};
}

uint64_t SafetensorsWriter::file_bytes() const { return state_->data_begin + state_->data_bytes; }

}  // namespace zonda::checkpoint
