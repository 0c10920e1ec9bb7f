// Runs the text files of tests/scenarios: submit, step, commit, expect. Format:
// tests/scenarios/README. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "scheduler/simulation.h"

namespace zonda::scheduler {
namespace {

using Options = std::map<std::string, std::string>;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

// "a=1" and plain flags from the second word on.
Options options_of(const std::vector<std::string>& words, size_t first) {
  Options options;
  for (size_t i = first; i < words.size(); ++i) {
    const size_t equal = words[i].find('=');
    options[words[i].substr(0, equal)] =
        equal == std::string::npos ? "1" : words[i].substr(equal + 1);
  }
  return options;
}

class Scenario {
 public:
  explicit Scenario(const std::filesystem::path& path) : name_(path.filename().string()) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      const size_t comment = line.find('#');
      lines_.push_back(line.substr(0, comment));
    }
  }

  void run() {
    for (line_ = 0; line_ < lines_.size() && !testing::Test::HasFatalFailure(); ++line_) {
      SCOPED_TRACE(name_ + ":" + std::to_string(line_ + 1) + ": " + lines_[line_]);
      const auto words = words_of(lines_[line_]);
      if (!words.empty()) {
        execute(words);
      }
    }
    ASSERT_NE(simulation_, nullptr);
    EXPECT_EQ(simulation_->outstanding(), 0u) << name_ << ": a step is not committed";
    for (const auto& [name, id] : ids_) {
      simulation_->cancel(id);
    }
    simulation_->expect_clean();
  }

 private:
  void execute(const std::vector<std::string>& words) {
    const std::string& verb = words[0];
    const Options options = options_of(words, 1);
    if (verb == "config") {
      configure(options);
    } else if (verb == "submit") {
      auto added = simulation_->submit(request(words[1], options_of(words, 2)));
      EXPECT_TRUE(added.ok()) << added.error().message;
    } else if (verb == "refuse") {
      refuse(words);
    } else if (verb == "step") {
      step();
    } else if (verb == "commit") {
      std::set<SequenceKey> finish;
      for (size_t i = 2; i < words.size(); ++i) {
        finish.insert(key(words[i]));
      }
      simulation_->commit(finish);
    } else if (verb == "cancel") {
      words[1].find('.') == std::string::npos ? simulation_->cancel(ids_.at(words[1]))
                                              : simulation_->cancel_sequence(key(words[1]));
    } else if (verb == "expect") {
      expect(options);
    } else {
      FAIL() << "unknown verb " << verb;
    }
  }

  static int32_t number(const Options& options, const std::string& name, int32_t otherwise) {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : std::stoi(found->second);
  }

  void configure(const Options& options) {
    SchedulerConfig config;
    if (options.contains("max_utilization")) {
      config.policy = Policy::kMaxUtilization;
    }
    config.max_batch_size = number(options, "batch", 8);
    config.max_num_tokens = number(options, "tokens", 64);
    config.max_seq_len = number(options, "seq_len", 128);
    config.max_input_len = number(options, "input_len", 0);
    config.max_chunk_tokens = number(options, "chunk", 0);
    kvcache::KvCacheConfig cache;
    cache.num_blocks = number(options, "blocks", 16);
    cache.tokens_per_block = number(options, "block_size", 4);
    cache.enable_reuse = number(options, "reuse", 1) != 0;
    simulation_ = std::make_unique<Simulation>(config, cache);
  }

  Request request(const std::string& name, const Options& options) {
    Request request;
    request.id = ids_.size() + 1;
    const int32_t family = number(options, "family", static_cast<int32_t>(request.id));
    for (int32_t i = 0; i < number(options, "prompt", 1); ++i) {
      request.prompt.push_back(family * 1000 + i);
    }
    request.max_new_tokens = number(options, "new", 1);
    request.num_sequences = number(options, "n", 1);
    request.all_prompt_logits = options.contains("all_logits");
    request.reuse_prefix = !options.contains("no_reuse");
    request.cache_salt.low = static_cast<uint64_t>(number(options, "salt", 0));
    ids_[name] = request.id;
    names_[request.id] = name;
    return request;
  }

  // refuse NAME OPTIONS... : text of the message
  void refuse(const std::vector<std::string>& words) {
    const size_t colon = lines_[line_].find(": ");
    ASSERT_NE(colon, std::string::npos);
    auto before = words_of(lines_[line_].substr(0, colon));
    const auto added = simulation_->submit(request(before[1], options_of(before, 2)));
    ASSERT_FALSE(added.ok());
    std::string text = lines_[line_].substr(colon + 2);
    text.erase(text.find_last_not_of(' ') + 1);
    EXPECT_NE(added.error().message.find(text), std::string::npos) << added.error().message;
    EXPECT_EQ(words[0], "refuse");
  }

  // The indented lines after "step" are the whole plan, in order.
  void step() {
    std::string expected;
    while (line_ + 1 < lines_.size() && lines_[line_ + 1].starts_with("  ")) {
      std::string text;
      for (const std::string& word : words_of(lines_[++line_])) {
        text += (text.empty() ? "" : " ") + word;
      }
      expected += text.empty() ? "" : text + "\n";
    }
    EXPECT_EQ(print(simulation_->plan()), expected);
  }

  std::string print(const StepPlan& plan) const {
    std::ostringstream out;
    for (const SequenceKey& paused : plan.paused) {
      out << "pause " << print(paused) << "\n";
    }
    if (!plan.copies.empty()) {
      out << "copies " << plan.copies.size() << "\n";
    }
    for (size_t i = 0; i < plan.rows.size(); ++i) {
      const PlanRow& row = plan.rows[i];
      out << (static_cast<int32_t>(i) < plan.num_context_rows ? "context " : "generate ")
          << print(row.key) << " " << row.start_position << ".."
          << row.start_position + row.num_tokens;
      const std::pair<const char*, int32_t> extras[] = {{" logits=", row.num_logits},
                                                        {" samples=", row.num_samples},
                                                        {" reused=", row.num_reused}};
      for (const auto& [label, value] : extras) {
        const bool usual = row.num_logits == 1 && row.num_samples == 1 && label[1] != 'r';
        if (value != 0 && !usual) {
          out << label << value;
        }
      }
      out << "\n";
    }
    const std::string text = out.str();
    return text.empty() ? "idle\n" : text;
  }
  std::string print(SequenceKey key) const {
    return names_.at(key.request) + "." + std::to_string(key.sequence);
  }
  SequenceKey key(const std::string& text) const {
    const size_t dot = text.find('.');
    return {ids_.at(text.substr(0, dot)), std::stoi(text.substr(dot + 1))};
  }

  void expect(const Options& options) {
    const SchedulerStats scheduler = simulation_->scheduler().stats();
    const kvcache::KvCacheStats cache = simulation_->kv_cache().stats();
    const std::map<std::string, int64_t> values = {
        {"free", cache.free_blocks},
        {"used", cache.used_blocks},
        {"cached", cache.cached_blocks},
        {"reused", cache.reused_blocks},
        {"copied", cache.copied_blocks},
        {"running", scheduler.running_sequences},
        {"paused", scheduler.paused_sequences},
        {"waiting", scheduler.waiting_requests},
        {"active", scheduler.active_requests},
    };
    for (const auto& [name, value] : options) {
      EXPECT_EQ(values.at(name), std::stoi(value)) << name;
    }
  }

  std::string name_;
  std::vector<std::string> lines_;
  size_t line_ = 0;
  std::unique_ptr<Simulation> simulation_;
  std::map<std::string, RequestId> ids_;
  std::map<RequestId, std::string> names_;
};

class ScenarioTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(ScenarioTest, PlansAsWritten) { Scenario(GetParam()).run(); }

std::vector<std::filesystem::path> scenario_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(ZONDA_SOURCE_DIR "/tests/scenarios")) {
    if (entry.path().extension() == ".txt") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(Scenarios, ScenarioTest, testing::ValuesIn(scenario_files()),
                         [](const auto& param) { return param.param.stem().string(); });

}  // namespace
}  // namespace zonda::scheduler
