// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace zonda::text {
namespace {

// The law in words: cut at the first end of a stop string; of those that end there, the longest.
std::string expected_output(const std::string& text, const std::vector<std::string>& stops,
                            bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (!stop.empty() && stop.size() <= end &&
          text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) {
      return text.substr(0, include ? end : end - longest);
    }
  }
  return text;
}

std::string random_text(std::mt19937& random, size_t longest) {
  std::string text(random() % (longest + 1), 'a');
  for (char& byte : text) {
    byte = static_cast<char>('a' + random() % 3);
  }
  return text;
}

TEST(StopMatcher, EqualsTheDefinitionForEveryCut) {
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random_text(random, 24);
    std::vector<std::string> stops;
    for (size_t n = random() % 4; n > 0; --n) {
      stops.push_back(random_text(random, 4));
    }
    const bool include = random() % 2 == 0;
    StopMatcher matcher(stops, include);
    std::string output;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + random() % 5;
      output += matcher.push(std::string_view(text).substr(at, length));
      at += length;
    }
    output += matcher.flush();
    EXPECT_EQ(output, expected_output(text, stops, include)) << text;
  }
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher matcher({"\n\nHuman"}, false);
  EXPECT_EQ(matcher.push("Hello"), "Hello");
  EXPECT_EQ(matcher.push(".\n\nHu"), ".");
  EXPECT_EQ(matcher.push("m"), "");
  EXPECT_EQ(matcher.push("ble"), "\n\nHumble");
  EXPECT_EQ(matcher.push("\n\nHuman: x"), "");
  EXPECT_EQ(matcher.matched(), 0u);
  EXPECT_EQ(matcher.push("more") + matcher.flush(), "");
}

}  // namespace
}  // namespace zonda::text
