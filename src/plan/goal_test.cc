#include "plan/goal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <tuple>

namespace ronde::plan {
namespace {

Fabric adding_fabric() {
  Fabric fabric;
  fabric.link_gbit = 8;
  fabric.reduce_ns_per_byte = 0.5;
  return fabric;
}

Step step_with(std::size_t bytes) { return {.name = "", .compute_ns = 3000, .buckets = {{"", bytes, 1, 2000}}}; }

TEST(Goal, TwoRanksExchange) {
  Result<std::string> text = goal_text(step_with(1024), {2, 1}, adding_fabric());
  ASSERT_TRUE(text) << text.status().message();
  EXPECT_EQ(*text,
            "num_ranks 2\n"
            "\nrank 0 {\n"
            "l1: calc 2000 cpu 1\n"
            "l2: send 1024b to 1 tag 0 cpu 0\nl2 requires l1\n"
            "l3: recv 1024b from 1 tag 0 cpu 0\nl3 requires l1\n"
            "l4: calc 1024 cpu 0\nl4 requires l1\nl4 requires l2\nl4 requires l3\n"
            "l5: calc 1000 cpu 1\nl5 requires l1\n"
            "}\n"
            "\nrank 1 {\n"
            "l1: calc 2000 cpu 1\n"
            "l2: send 1024b to 0 tag 0 cpu 0\nl2 requires l1\n"
            "l3: recv 1024b from 0 tag 0 cpu 0\nl3 requires l1\n"
            "l4: calc 1024 cpu 0\nl4 requires l1\nl4 requires l2\nl4 requires l3\n"
            "l5: calc 1000 cpu 1\nl5 requires l1\n"
            "}\n");
}

/// Every message that is sent is received, as large, and every label that is required stands before.
void check_text(const std::string& text) {
  std::map<std::tuple<int, int, int, long>, int> open;  // from, to, tag, bytes
  std::set<std::string> labels;
  std::istringstream lines(text);
  std::string line;
  int rank = -1;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string first;
    std::string verb;
    words >> first >> verb;
    if (first == "rank") {
      rank = std::stoi(verb);
      labels.clear();
    } else if (verb == "requires") {
      std::string other;
      words >> other;
      ASSERT_TRUE(labels.count(first) == 1 && labels.count(other) == 1) << line;
    } else if (!first.empty() && first.back() == ':') {
      labels.insert(first.substr(0, first.size() - 1));
      long bytes = 0;
      char unit = 0;
      std::string direction;
      int peer = 0;
      std::string tag_word;
      int tag = 0;
      if (verb == "send" || verb == "recv") {
        words >> bytes >> unit >> direction >> peer >> tag_word >> tag;
        ASSERT_TRUE(unit == 'b' && tag_word == "tag") << line;
        verb == "send" ? ++open[{rank, peer, tag, bytes}] : --open[{peer, rank, tag, bytes}];
      }
    }
  }
  for (const auto& [message, count] : open) {
    ASSERT_EQ(count, 0) << std::get<0>(message) << " to " << std::get<1>(message);
  }
}

TEST(Goal, WhatIsSentIsReceived) {
  for (const Cluster& cluster : {Cluster{2, 1}, Cluster{2, 2}, Cluster{3, 1}, Cluster{3, 2}, Cluster{5, 3}}) {
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{1} << 20, std::size_t{9} << 20}) {
      Step two = step_with(bytes);
      two.buckets.push_back({"", 2 * bytes, 1, 2500});
      Result<std::string> text = goal_text(two, cluster, adding_fabric());
      ASSERT_TRUE(text) << text.status().message();
      check_text(*text);
    }
  }
}

TEST(Goal, WhatWouldBeTooLongIsRefused) {
  EXPECT_THAT(goal_text(step_with(1 << 20), {4096, 1}, adding_fabric()).status().message(),
              testing::HasSubstr("33546240 messages, and at most 4000000 are written"));
  EXPECT_THAT(goal_text(step_with(1 << 20), {1, 4}, adding_fabric()).status().message(),
              testing::HasSubstr("two hosts or more"));
}

}  // namespace
}  // namespace ronde::plan
