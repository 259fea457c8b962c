#include "launch/process_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace ronde::launch {
namespace {

std::vector<pid_t> pids(const std::vector<Process>& processes) {
  std::vector<pid_t> result;
  for (const Process& process : processes) {
    result.push_back(process.pid);
  }
  return result;
}

TEST(ProcessTree, ReadsAStatWithAnyName) {
  const auto process = parse_stat("12 (a) Z (b)\n) S 3 7 7 0 -1 4194304 1 0\n");
  ASSERT_TRUE(process);
  EXPECT_EQ(process->pid, 12);
  EXPECT_EQ(process->parent, 3);
  EXPECT_EQ(process->group, 7);
  EXPECT_EQ(process->state, 'S');
  EXPECT_FALSE(parse_stat(""));
  EXPECT_FALSE(parse_stat("12 (a"));
  EXPECT_FALSE(parse_stat("12 (a) "));
  EXPECT_FALSE(parse_stat("12 (a) S"));
  EXPECT_FALSE(parse_stat("12 (a) S 3"));
  EXPECT_FALSE(parse_stat("x (a) S 3 4"));
}

TEST(ProcessTree, FindsAllThatDescend) {
  const std::vector<Process> all = {{1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 1}, {6, 5}, {7, 4}, {8, 2}};
  EXPECT_THAT(pids(descendants(all, 2)), testing::UnorderedElementsAre(3, 4, 7, 8));
  EXPECT_THAT(pids(descendants(all, 2, {4})), testing::UnorderedElementsAre(3, 8));
  EXPECT_THAT(pids(descendants(all, 7)), testing::IsEmpty());
}

TEST(ProcessTree, ACircleEnds) {
  EXPECT_THAT(pids(descendants({{2, 3}, {3, 2}, {4, 3}}, 2)), testing::UnorderedElementsAre(3, 4));
}

TEST(ProcessTree, SeesThisProcess) {
  const std::vector<Process> all = list_processes();
  const auto self = std::find_if(all.begin(), all.end(), [](const Process& p) { return p.pid == ::getpid(); });
  ASSERT_NE(self, all.end());
  EXPECT_EQ(self->parent, ::getppid());
  EXPECT_EQ(self->group, ::getpgrp());
}

}  // namespace
}  // namespace ronde::launch
