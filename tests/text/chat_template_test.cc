// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace zonda::text {
namespace {

OrderedJson variables() {
  return OrderedJson::parse(R"({"messages": [{"role": "user", "content": "Hi <|x|>"},
      {"role": "assistant", "content": "Hello"}], "add_generation_prompt": true, "bos_token": "<s>"})");
}

std::string render(std::string_view source, const RenderOptions& options = {}) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) {
    return "parse: " + parsed.error().message;
  }
  const auto rendered = (*parsed)->render(variables(), options);
  return rendered.ok() ? join_segments(*rendered) : "render: " + rendered.error().message;
}

TEST(ChatTemplate, RendersChatMl) {
  EXPECT_EQ(
      render("{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + "
             "'\n' + "
             "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}"
             "{{ '<|im_start|>assistant\n' }}{% endif %}"),
      "<s><|im_start|>user\nHi <|x|><|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
      "<|im_start|>assistant\n");
}

TEST(ChatTemplate, OnlyTheTemplatesOwnTextIsMarkedSo) {
  const auto parsed = ChatTemplate::parse("{{ '<|x|>' ~ messages[0].content }}<|end|>");
  const auto segments = *(*parsed)->render(variables());
  const std::vector<Segment> expected = {{"<|x|>", true}, {"Hi <|x|>", false}, {"<|end|>", true}};
  EXPECT_EQ(segments, expected);
}

TEST(ChatTemplate, BlocksTakeTheirLineWithThem) {
  EXPECT_EQ(render("a\n  {% if true %}\nb\n  {% endif %}\nc"), "a\nb\nc");
  EXPECT_EQ(render("a  {{- ' b ' -}}  c"), "a b c");
}

TEST(ChatTemplate, ExpressionsFiltersAndTests) {
  EXPECT_EQ(
      render("{{ messages | length }} {{ messages[-1].role | upper }} {{ 7 // 2 }} {{ 7 % 4 }}"),
      "2 ASSISTANT 3 3");
  EXPECT_EQ(render("{{ 'x' if messages is defined and missing is not defined else 'y' }}"), "x");
  EXPECT_EQ(render("{{ messages | map(attribute='role') | join(', ') }}"), "user, assistant");
  EXPECT_EQ(render("{{ {'a': [1, 2.5, none, true]} | tojson }}"), R"({"a": [1, 2.5, null, true]})");
  EXPECT_EQ(render("{{ '  pad '.strip()[:2] }}{{ 'a,b'.split(',')[1] }}"), "pab");
}

TEST(ChatTemplate, LoopsMacrosAndNamespaces) {
  EXPECT_EQ(render("{% for m in messages %}{{ loop.index }}{{ ',' if not loop.last }}{% endfor %}"),
            "1,2");
  EXPECT_EQ(
      render("{% macro f(a, b='!') %}{{ a }}{{ b }}{% endmacro %}{{ f('x') }}{{ f('y', b='?') }}"),
      "x!y?");
  EXPECT_EQ(render("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
                   "{% endfor %}{{ ns.n }}"),
            "2");
  EXPECT_EQ(render("{% for m in messages if m.role == 'none' %}x{% else %}empty{% endfor %}"),
            "empty");
}

TEST(ChatTemplate, ErrorsTellWhereAndInTheTemplatesWords) {
  const std::string raised = render("one\n{{ raise_exception('roles must alternate') }}");
  EXPECT_NE(raised.find("roles must alternate"), std::string::npos);
  EXPECT_NE(raised.find("line 2"), std::string::npos) << raised;
  EXPECT_NE(render("{% if %}").find("parse: "), std::string::npos);
  EXPECT_NE(render("{{ messages.nothing.more }}").find("render: "), std::string::npos);
}

TEST(ChatTemplate, AnEndlessTemplateEndsAtItsLimit) {
  const std::string_view source =
      "{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}";
  RenderOptions few_steps;
  few_steps.max_steps = 20'000;
  EXPECT_NE(render(source, few_steps).find("more than 20000 steps"), std::string::npos);
  RenderOptions little_output;
  little_output.max_output_bytes = 1000;
  EXPECT_NE(render(source, little_output).find("render: "), std::string::npos);
}

}  // namespace
}  // namespace zonda::text
