// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/folder.h"
#include "checkpoint/safetensors.h"

namespace zonda::checkpoint {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kIndexName = "model.safetensors.index.json";

using WeightMap = std::map<std::string, std::string>;  // tensor -> file name

// A plain file name: an index must not reach outside its folder.
bool is_plain_file_name(std::string_view name) {
  return name.ends_with(".safetensors") && name.find('/') == std::string_view::npos;
}

Result<WeightMap> read_weight_map(const std::string& path) {
  const Result<Json> index = parse_json_file(path);
  if (!index.ok()) {
    return index.error();
  }
  const auto found = index->is_object() ? index->find("weight_map") : index->end();
  if (found == index->end() || !found->is_object() || found->empty()) {
    return corrupt("[safetensors] {} has no object \"weight_map\" with entries.", path);
  }
  WeightMap map;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>())) {
      return corrupt(
          "[safetensors] {}: tensor {} is placed in {}, expected a file name *"
          ".safetensors in the same folder.",
          path, tensor, dump_json(file));
    }
    map.emplace(tensor, file.get<std::string>());
  }
  return map;
}

// Both directions: what the index says is there, and nothing else is.
Result<void> check_index(const SafetensorsSet& set, const WeightMap& map,
                         const std::string& index_path) {
  for (const auto& [tensor, file] : map) {
    if (set.find(tensor) == nullptr) {
      return corrupt("[safetensors] {}: tensor {} is not in {} where the index places it.",
                     index_path, tensor, file);
    }
    const std::string actual = fs::path(set.file_of(tensor).path()).filename().string();
    if (actual != file) {
      return corrupt("[safetensors] {}: tensor {} is placed in {} but stored in {}.", index_path,
                     tensor, file, actual);
    }
  }
  for (const std::string& tensor : set.names()) {
    if (!map.contains(tensor)) {
      return corrupt("[safetensors] {}: the index does not name tensor {} of {}.", index_path,
                     tensor, set.file_of(tensor).path());
    }
  }
  return {};
}

Result<SafetensorsSet> open_indexed(const std::string& folder, const std::string& index_path) {
  const Result<WeightMap> map = read_weight_map(index_path);
  if (!map.ok()) {
    return map.error();
  }
  std::set<std::string> shards;
  for (const auto& [tensor, file] : *map) {
    shards.insert(file);
  }
  std::vector<std::string> paths;
  for (const std::string& shard : shards) {
    const std::string path = folder + "/" + shard;
    if (!file_exists(path)) {
      return not_found("[safetensors] {} names the file {}, which is not there.", index_path,
                       shard);
    }
    paths.push_back(path);
  }
  Result<SafetensorsSet> set = SafetensorsSet::open_files(paths);
  if (!set.ok()) {
    return set.error();
  }
  if (Result<void> checked = check_index(*set, *map, index_path); !checked.ok()) {
    return checked.error();
  }
  return set;
}

}  // namespace

Result<SafetensorsSet> SafetensorsSet::open_files(const std::vector<std::string>& paths) {
  SafetensorsSet set;
  for (const std::string& path : paths) {
    Result<SafetensorsFile> file = SafetensorsFile::open(path);
    if (!file.ok()) {
      return file.error();
    }
    for (const auto& [name, tensor] : file->tensors()) {
      const auto [entry, inserted] = set.owner_.emplace(name, set.files_.size());
      if (!inserted) {
        return corrupt("[safetensors] tensor {} is in both {} and {}.", name,
                       set.files_[entry->second].path(), path);
      }
    }
    set.files_.push_back(std::move(*file));
  }
  return set;
}

Result<SafetensorsSet> SafetensorsSet::open_folder(const std::string& folder) {
  const std::string index_path = folder + "/" + std::string(kIndexName);
  if (file_exists(index_path)) {
    return open_indexed(folder, index_path);
  }
  const std::vector<std::string> paths = files_with_ending(folder, ".safetensors");
  if (paths.size() == 1) {
    return open_files(paths);
  }
  if (paths.size() > 1) {
    return not_found("[safetensors] {} has {} *.safetensors files but no {}.", folder, paths.size(),
                     kIndexName);
  }
  const std::vector<std::string> pickles = files_with_ending(folder, ".bin");
  if (!pickles.empty()) {
    return unsupported(
        "[safetensors] {} is a pickle, which can run code; save the model as "
        "safetensors.",
        pickles.front());
  }
  return not_found("[safetensors] {} has no *.safetensors file.", folder);
}

const TensorView* SafetensorsSet::find(std::string_view name) const {
  const auto found = owner_.find(name);
  if (found == owner_.end()) {
    return nullptr;
  }
  return &files_[found->second].tensors().find(name)->second;
}

const SafetensorsFile& SafetensorsSet::file_of(std::string_view name) const {
  const auto found = owner_.find(name);
  CHECK(found != owner_.end());
  return files_[found->second];
}

std::vector<std::string> SafetensorsSet::names() const {
  std::vector<std::string> names;
  for (const auto& [name, unused] : owner_) {
    names.push_back(name);
  }
  return names;
}

}  // namespace zonda::checkpoint
