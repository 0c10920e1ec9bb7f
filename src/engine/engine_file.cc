// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_file.h"

#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"

namespace zonda::engine {
namespace {

constexpr std::array<char, 8> kMagic = {'Z', 'O', 'N', 'D', 'A', 'E', 'N', 'G'};

// First page of the file, little-endian; the weights section starts at the second page, the plan
// follows it.
struct Header {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t header_bytes;
  uint64_t weights_offset;
  uint64_t weights_bytes;
  uint64_t weights_checksum;  // XXH3-64
  uint64_t plan_offset;
  uint64_t plan_bytes;
  uint64_t plan_checksum;
  uint64_t header_checksum;  // of the bytes before it
};
static_assert(sizeof(Header) == 72);

uint64_t header_checksum(const Header& header) {
  return hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_checksum)));
}

Error wrong_version(const std::string& path, uint32_t version) {
  return unsupported(
      "[engine] {} has engine format version {}; this program reads versions {} to {}. Build it "
      "again: zonda build "
      "--checkpoint_dir CHECKPOINT --output_dir FOLDER.",
      path, version, kOldestEngineVersion, kEngineVersion);
}

// A section [offset, offset + bytes) of the file, or an error.
Result<std::span<const std::byte>> section(std::span<const std::byte> file, uint64_t offset,
                                           uint64_t bytes, const std::string& path,
                                           const char* name) {
  if (offset > file.size() || bytes > file.size() - offset) {
    return corrupt(
        "[engine] {}: the {} section ({} bytes at {}) is beyond the end of the file ({} bytes).",
        path, name, bytes, offset, file.size());
  }
  return file.subspan(offset, bytes);
}

Result<Header> read_header(std::span<const std::byte> bytes, const std::string& path) {
  Header header;
  if (bytes.size() < sizeof(Header)) {
    return corrupt("[engine] {} has {} bytes; an engine file has at least {}.", path, bytes.size(),
                   sizeof(Header));
  }
  std::memcpy(&header, bytes.data(), sizeof(Header));
  if (header.magic != kMagic) {
    return corrupt("[engine] {} is not an engine file (it does not start with ZONDAENG).", path);
  }
  if (header.version < kOldestEngineVersion || header.version > kEngineVersion) {
    return wrong_version(path, header.version);
  }
  if (header.header_checksum != header_checksum(header) || header.header_bytes != sizeof(Header)) {
    return corrupt("[engine] {}: the header's checksum does not match.", path);
  }
  return header;
}

}  // namespace

std::string engine_file_path(const std::string& path) {
  std::error_code code;
  return std::filesystem::is_directory(path, code) ? path + "/rank0.engine" : path;
}

Result<EngineFile> open_engine_file(const std::string& path, bool verify_weights) {
  const std::string file_path = engine_file_path(path);
  Result<MappedFile> file = MappedFile::open(file_path);
  if (!file.ok()) {
    return file.error();
  }
  const std::span<const std::byte> bytes = file->bytes();
  const Result<Header> header = read_header(bytes, file_path);
  if (!header.ok()) {
    return header.error();
  }
  const auto plan_bytes =
      section(bytes, header->plan_offset, header->plan_bytes, file_path, "plan");
  if (!plan_bytes.ok()) {
    return plan_bytes.error();
  }
  const auto weights =
      section(bytes, header->weights_offset, header->weights_bytes, file_path, "weights");
  if (!weights.ok()) {
    return weights.error();
  }
  if (header->weights_offset % kWeightAlignment != 0) {
    return corrupt("[engine] {}: the weights section is not page-aligned.", file_path);
  }
  if (hash64(*plan_bytes) != header->plan_checksum) {
    return corrupt("[engine] {}: the plan's checksum does not match.", file_path);
  }
  if (verify_weights && hash64(*weights) != header->weights_checksum) {
    return corrupt("[engine] {}: the weights' checksum does not match.", file_path);
  }
  const Result<Json> json =
      parse_json({reinterpret_cast<const char*>(plan_bytes->data()), plan_bytes->size()},
                 file_path + " (plan)");
  if (!json.ok()) {
    return json.error();
  }
  Result<EnginePlan> plan = plan_from_json(*json);
  if (!plan.ok()) {
    return plan.error();
  }
  if (const Result<void> checked = check_plan(*plan, static_cast<int64_t>(weights->size()));
      !checked.ok()) {
    return checked.error();
  }
  return EngineFile{std::move(*file), std::move(*plan), *weights};
}

struct EngineFileWriter::State {
  std::string path;
  std::FILE* file = nullptr;
  XXH3_state_t* checksum = nullptr;
  int64_t weights_bytes = 0;
  bool finished = false;

  ~State() {
    if (file != nullptr) {
      std::fclose(file);
    }
    XXH3_freeState(checksum);
    if (!finished) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  }
  Result<void> write(const void* data, size_t bytes) {
    if (bytes != 0 && std::fwrite(data, 1, bytes, file) != bytes) {
      return io_error("[engine] write {}: {}.", path,
                      std::error_code(errno, std::generic_category()).message());
    }
    return {};
  }
  // Weights are hashed as they pass, padding included.
  Result<void> write_weights(const void* data, size_t bytes) {
    XXH3_64bits_update(checksum, data, bytes);
    weights_bytes += static_cast<int64_t>(bytes);
    return write(data, bytes);
  }
};

EngineFileWriter::EngineFileWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
EngineFileWriter::EngineFileWriter(EngineFileWriter&&) noexcept = default;
EngineFileWriter::~EngineFileWriter() = default;

Result<EngineFileWriter> EngineFileWriter::create(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->file = std::fopen(path.c_str(), "wbe");
  state->checksum = XXH3_createState();
  CHECK(state->checksum != nullptr);
  XXH3_64bits_reset(state->checksum);
  if (state->file == nullptr) {
    state->finished = true;  // nothing to remove
    return io_error("[engine] create {}: {}.", path,
                    std::error_code(errno, std::generic_category()).message());
  }
  const std::vector<std::byte> first_page(kWeightAlignment);
  if (const Result<void> written = state->write(first_page.data(), first_page.size());
      !written.ok()) {
    return written.error();
  }
  return EngineFileWriter(std::move(state));
}

Result<int64_t> EngineFileWriter::append(std::span<const std::byte> bytes) {
  static constexpr std::array<std::byte, kWeightAlignment> kZeros{};
  const int64_t padding =
      (kWeightAlignment - state_->weights_bytes % kWeightAlignment) % kWeightAlignment;
  if (const Result<void> padded =
          state_->write_weights(kZeros.data(), static_cast<size_t>(padding));
      !padded.ok()) {
    return padded.error();
  }
  const int64_t offset = state_->weights_bytes;
  if (const Result<void> written = state_->write_weights(bytes.data(), bytes.size());
      !written.ok()) {
    return written.error();
  }
  return offset;
}

Result<MappedFile> EngineFileWriter::map() const {
  if (std::fflush(state_->file) != 0) {
    return io_error("[engine] write {}: {}.", state_->path,
                    std::error_code(errno, std::generic_category()).message());
  }
  return MappedFile::open(state_->path);
}

Result<int64_t> EngineFileWriter::finish(const EnginePlan& plan) {
  const std::string text = dump_json(plan_to_json(plan));
  Header header{};
  header.magic = kMagic;
  header.version = kEngineVersion;
  header.header_bytes = sizeof(Header);
  header.weights_offset = kWeightAlignment;
  header.weights_bytes = static_cast<uint64_t>(state_->weights_bytes);
  header.weights_checksum = XXH3_64bits_digest(state_->checksum);
  header.plan_offset = header.weights_offset + header.weights_bytes;
  header.plan_bytes = text.size();
  header.plan_checksum = hash64(std::as_bytes(std::span(text)));
  header.header_checksum = header_checksum(header);
  if (const Result<void> written = state_->write(text.data(), text.size()); !written.ok()) {
    return written.error();
  }
  if (std::fseek(state_->file, 0, SEEK_SET) != 0) {
    return io_error("[engine] seek in {} failed.", state_->path);
  }
  if (const Result<void> written = state_->write(&header, sizeof(Header)); !written.ok()) {
    return written.error();
  }
  std::FILE* file = std::exchange(state_->file, nullptr);
  if (std::fclose(file) != 0) {
    return io_error("[engine] close {}: {}.", state_->path,
                    std::error_code(errno, std::generic_category()).message());
  }
  state_->finished = true;
  return static_cast<int64_t>(header.plan_offset + header.plan_bytes);
}

}  // namespace zonda::engine
