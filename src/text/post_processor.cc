// Post-processors of tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#include "text/post_processor.h"

#include "base/error.h"
#include "text/fault.h"
#include "text/json_fields.h"

namespace zonda::text {
namespace {

// The ids and texts that a template calls `name`.
std::vector<FixedToken> special_token(const Json& special_tokens, const std::string& name) {
  if (!special_tokens.is_object() || !special_tokens.contains(name)) {
    throw Fault{
        corrupt("[tokenizer] post_processor.TemplateProcessing uses \"{}\", which is not in "
                "its special_tokens.",
                name)};
  }
  Fields fields(special_tokens[name], "post_processor.TemplateProcessing.special_tokens");
  fields.ignore({"id"});
  const Json& ids = fields.array("ids");
  const Json& texts = fields.array("tokens");
  fields.finish();
  std::vector<FixedToken> tokens;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i >= texts.size() || !ids[i].is_number_unsigned() || !texts[i].is_string()) {
      fields.fail("ids", "a list of ids with as many tokens");
    }
    tokens.push_back({ids[i].get<int32_t>(), texts[i].get<std::string>()});
  }
  return tokens;
}

void read_template(Fields& fields, PostProcessor& processor) {
  const Json& special_tokens = fields.value("special_tokens");
  fields.ignore({"pair"});  // sequences are never paired here
  bool seen = false;
  std::vector<FixedToken> before;
  for (const Json& piece : fields.array("single")) {
    if (piece.is_object() && piece.contains("Sequence")) {
      Fields sequence(piece["Sequence"], fields.where() + ".Sequence");
      if (seen || sequence.string("id") != "A") {
        throw Fault{unsupported("[tokenizer] {}.single is not one sequence A.", fields.where())};
      }
      seen = true;
    } else if (piece.is_object() && piece.contains("SpecialToken")) {
      Fields special(piece["SpecialToken"], fields.where() + ".SpecialToken");
      const auto tokens = special_token(special_tokens, special.string("id"));
      auto& side = seen ? processor.after : before;
      side.insert(side.end(), tokens.begin(), tokens.end());
    } else {
      throw Fault{corrupt("[tokenizer] {}.single holds neither Sequence nor SpecialToken.",
                          fields.where())};
    }
  }
  if (!seen) {
    throw Fault{unsupported("[tokenizer] {}.single leaves the text out.", fields.where())};
  }
  processor.before.insert(processor.before.begin(), before.begin(), before.end());
}

FixedToken read_pair(Fields& fields, const char* name) {
  const Json& pair = fields.array(name);
  if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number_unsigned()) {
    fields.fail(name, "a pair of token and id");
  }
  return {pair[1].get<int32_t>(), pair[0].get<std::string>()};
}

void read_trimming(Fields& fields, PostProcessor& processor) {
  processor.add_prefix_space = fields.boolean("add_prefix_space", true);
  processor.trim_offsets = fields.boolean("trim_offsets", true);
}

void read_component(const Json& json, PostProcessor& processor) {
  const std::string type = component_type(json, "post_processor");
  Fields fields(json, "post_processor." + type);
  if (type == "Sequence") {
    for (const Json& step : fields.array("processors")) {
      read_component(step, processor);
    }
  } else if (type == "TemplateProcessing") {
    read_template(fields, processor);
  } else if (type == "ByteLevel") {
    read_trimming(fields, processor);
    fields.ignore({"use_regex"});  // plays no part after the split
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    if (type == "RobertaProcessing") {
      read_trimming(fields, processor);
    }
    processor.before.insert(processor.before.begin(), read_pair(fields, "cls"));
    processor.after.push_back(read_pair(fields, "sep"));
  } else {
    throw_unsupported_component("post_processor", type);
  }
  fields.finish();
}

}  // namespace

PostProcessor parse_post_processor(const Json& json) {
  PostProcessor processor;
  if (!json.is_null()) {
    read_component(json, processor);
  }
  return processor;
}

}  // namespace zonda::text
