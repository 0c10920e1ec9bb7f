// SPDX-License-Identifier: Apache-2.0
#include "cli/chat.h"

#include <unistd.h>

#include <istream>

#include "base/log.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/requests.h"
#include "cli/run_batch.h"
#include "cli/run_figures.h"
#include "cli/verb.h"

namespace zonda::cli {
namespace {

void show_prompt() {
  if (::isatty(STDIN_FILENO) == 1) {
    fmt::print(stderr, "> ");
  }
}

}  // namespace

Result<int> converse(Llm& llm, const Arguments& arguments, std::istream& input) {
  Result<GenerateRequest> request = request_from_options(arguments);
  if (!request) {
    return request.error();
  }
  const bool json = arguments.flag("json");
  request->streaming = true;
  ChatPrompt conversation = chat_turn(arguments, "");
  conversation.messages.pop_back();
  std::vector<Answer> answers;
  std::string message;
  for (show_prompt(); !interrupted() && std::getline(input, message); show_prompt()) {
    if (message.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    conversation.messages.push_back({"user", message});
    request->prompt = conversation;
    Result<BatchResult> turn = run_batch(
        llm, {*request},
        [&](size_t, const ResponseDelta& delta) {
          print_text(json ? "" : delta.text);
          return flush_output();
        },
        [&](size_t, const Answer& answer) {
          print_text(json ? answer_json(answer, request->sampling, llm.info().load_ms, "") : "");
          print_text("\n");
          return flush_output();
        });
    if (!turn) {
      return turn.error();
    }
    if (turn->interrupted) {
      return interrupted() ? kExitInterrupted : kExitFailed;
    }
    Answer& answer = turn->answers[0];
    const std::string reply = answer.choices.empty() ? "" : answer.choices[0].text;
    conversation.messages.push_back({"assistant", reply});
    log_info("{}", figures_line(llm.info(), turn->answers));
  }
  return interrupted() ? kExitInterrupted : kExitDone;
}

}  // namespace zonda::cli
