// `zonda tokenize`: text becomes token ids.
// SPDX-License-Identifier: Apache-2.0
#include "api/model_text.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace zonda::cli {
namespace {

constexpr Option kRows[] = {
    {.name = "text",
     .type = OptionType::kText,
     .value = "TEXT",
     .help = "The text.",
     .aliases = "input_text prompt",
     .repeatable = true},
    {.name = "input_file",
     .type = OptionType::kText,
     .value = "FILE",
     .help = "A file whose whole content is the text."},
    {.name = "add_special_tokens",
     .help = "Put the tokenizer's special tokens (BOS) around the text."},
    {.name = "parse_special", .help = "Let the text spell special tokens such as <|im_end|>."},
    {.name = "json",
     .help =
         "One JSON object a text: ids, pieces, offsets (bytes) and the text that the ids give."},
    {.name = "tokenizer_dir",
     .type = OptionType::kText,
     .value = "FOLDER",
     .help = "Take the tokenizer from here instead of from the model."},
};

void print_encoding(const text::Tokenizer& tokenizer, const text::Encoding& encoding, bool json) {
  if (json) {
    OrderedJson offsets = OrderedJson::array();
    for (const text::ByteRange& range : encoding.offsets) {
      offsets.push_back({range.begin, range.end});
    }
    const OrderedJson object = {{"ids", encoding.ids},
                                {"pieces", encoding.pieces},
                                {"offsets", offsets},
                                {"text", tokenizer.decode(encoding.ids, false)}};
    print("{}\n", dump_json(object));
    return;
  }
  TextTable table({"id", "bytes", "piece"});
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    table.add({std::to_string(encoding.ids[i]),
               fmt::format("{}-{}", encoding.offsets[i].begin, encoding.offsets[i].end),
               encoding.pieces[i]});
  }
  print("{}{} tokens\n", table.text(), encoding.ids.size());
}

Result<std::unique_ptr<text::Tokenizer>> find_tokenizer(const Arguments& arguments) {
  const std::string path =
      arguments.has("tokenizer_dir") ? arguments.text("tokenizer_dir") : arguments.positionals()[0];
  Result<api::TextFiles> files = api::TextFiles{};
  if (arguments.has("tokenizer_dir")) {
    files = api::read_text_files(path);
  } else {
    Result<api::ModelSource> source = api::find_source(path);
    if (!source) {
      return source.error();
    }
    files = api::read_text_files(*source);
  }
  if (!files) {
    return files.error();
  }
  if (files->tokenizer.empty()) {
    return not_found(
        "[tokenize] {} has no tokenizer: no tokenizer.json, and no GGUF file with one.", path);
  }
  return text::Tokenizer::from_json(files->tokenizer, files->tokenizer_config);
}

}  // namespace

OptionTable tokenize_options() { return {{"tokenize", kRows}, {"general", common_options()}}; }

int run_tokenize(const Arguments& arguments) {
  std::vector<std::string> texts = arguments.texts("text");
  if (arguments.positionals().empty() && !arguments.has("tokenizer_dir")) {
    return report_usage("[tokenize] it needs a model, or --tokenizer_dir.");
  }
  if (texts.empty() && !arguments.has("input_file")) {
    return report_usage("[tokenize] there is no text: give --text or --input_file.");
  }
  if (arguments.has("input_file")) {
    Result<std::string> content = read_file(arguments.text("input_file"));
    if (!content) {
      return report_failure(content.error());
    }
    texts.push_back(std::move(*content));
  }
  Result<std::unique_ptr<text::Tokenizer>> tokenizer = find_tokenizer(arguments);
  if (!tokenizer) {
    return report_failure(tokenizer.error());
  }
  for (const std::string& text : texts) {
    Result<text::Encoding> encoding =
        (*tokenizer)
            ->encode_with_offsets(
                text, {arguments.flag("add_special_tokens"), arguments.flag("parse_special")});
    if (!encoding) {
      return report_failure(encoding.error());
    }
    print_encoding(**tokenizer, *encoding, arguments.flag("json"));
  }
  return kExitDone;
}

}  // namespace zonda::cli
