// SPDX-License-Identifier: Apache-2.0
#include "cli/weight_arguments.h"

#include <utility>

#include "base/error.h"

namespace zonda::cli {
namespace {

// The format that --qformat or the older spelling asks for.
Result<std::string> wanted_format(const Arguments& arguments) {
  const std::string given = arguments.text("qformat");
  const std::string format = given == "full_prec"     ? "none"
                             : given == "fp8_rowwise" ? "fp8_pc_pt"
                                                      : given;
  for (const auto& [older, newer] :
       {std::pair{"use_fp8_rowwise", "fp8_pc_pt"}, {"use_fp8", "fp8"}}) {
    if (arguments.flag(older)) {
      for (const char* const other : {"use_weight_only", "weight_only_precision"}) {
        if (arguments.has(other)) {
          return invalid_argument("[options] --{} contradicts --{}.", other, older);
        }
      }
      return arguments.has("qformat") && format != newer
                 ? invalid_argument("[options] --qformat {} contradicts --{}.", given, older)
                 : Result<std::string>(newer);
    }
  }
  const bool precision_given = arguments.has("weight_only_precision");
  if (!arguments.flag("use_weight_only")) {
    if (precision_given && !arguments.has("qformat")) {
      return invalid_argument(
          "[options] --weight_only_precision {} has an effect only with --use_weight_only.",
          arguments.text("weight_only_precision"));
    }
    return format;
  }
  const std::string older = arguments.text("weight_only_precision") + "_wo";
  if (arguments.has("qformat") && format != older) {
    return invalid_argument("[options] --qformat {} contradicts --use_weight_only ({}).", given,
                            older);
  }
  return older;
}

}  // namespace

Result<convert::ConvertOptions> weight_arguments(const Arguments& arguments) {
  convert::ConvertOptions options;
  Result<std::string> format = wanted_format(arguments);
  if (!format) {
    return format.error();
  }
  options.qformat = *format;
  options.dtype = arguments.text("dtype");
  for (const char* const integer_only : {"per_channel", "group_size"}) {
    if (options.qformat.starts_with("fp8") && arguments.has(integer_only)) {
      return invalid_argument(
          "[options] --{} has no effect on {}: fp8 has a scale of each tensor, fp8_pc_pt one of "
          "each row.",
          integer_only, options.qformat);
    }
  }
  options.group_size = static_cast<int32_t>(arguments.integer("group_size"));
  if (arguments.flag("per_channel")) {
    if (arguments.has("group_size") && options.group_size != 0) {
      return invalid_argument("[options] --per_channel contradicts --group_size {}.",
                              options.group_size);
    }
    options.group_size = 0;
  }
  options.asymmetric = arguments.flag("asymmetric");
  options.exclude_modules = arguments.texts("exclude_modules");
  return options;
}

}  // namespace zonda::cli
