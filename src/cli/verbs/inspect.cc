// `zonda inspect`: what a model, checkpoint or engine is and needs.
// SPDX-License-Identifier: Apache-2.0
#include "api/facts.h"
#include "base/log.h"
#include "cli/number.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace zonda::cli {
namespace {

constexpr Option kRows[] = {
    {.name = "json", .help = "As one JSON object: section, name, value and where it comes from."},
    {.name = "tokenizer_dir",
     .type = OptionType::kText,
     .value = "FOLDER",
     .help = "Take tokenizer, chat template and generation settings from here."},
};

std::string value_text(const std::string& name, const OrderedJson& value) {
  const bool is_bytes = name.find("bytes") != std::string::npos && value.is_number_integer();
  if (is_bytes && value.get<int64_t>() >= 1'000'000) {
    return bytes_text(value.get<int64_t>());
  }
  if (value.is_boolean()) {
    return value.get<bool>() ? "yes" : "no";
  }
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

void print_facts(const OrderedJson& facts) {
  for (const auto& [section, entries] : facts.items()) {
    print("{}\n", section);
    for (const auto& [name, entry] : entries.items()) {
      print("  {:<32} {}  ({})\n", name, value_text(name, entry["value"]),
            entry["from"].get<std::string>());
    }
  }
}

}  // namespace

OptionTable inspect_options() { return {{"inspect", kRows}, {"general", common_options()}}; }

int run_inspect(const Arguments& arguments) {
  if (arguments.positionals().empty()) {
    return report_usage("[inspect] it needs a model, checkpoint or engine.");
  }
  Result<OrderedJson> facts =
      api::describe_model(arguments.positionals()[0], arguments.text("tokenizer_dir"));
  if (!facts) {
    return report_failure(facts.error());
  }
  if (arguments.flag("json")) {
    print("{}\n", dump_json(*facts, 2));
  } else {
    print_facts(*facts);
  }
  return kExitDone;
}

}  // namespace zonda::cli
