#include "launch/login.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::launch {
namespace {

TEST(Login, QuotesForAnyShell) {
  EXPECT_EQ(quoted("/opt/my py/bin/ronde"), "'/opt/my py/bin/ronde'");
  EXPECT_EQ(quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(quoted("$HOME `x` \"y\""), "'$HOME `x` \"y\"'");
}

TEST(Login, RunsTheAgentAndAsksNobody) {
  const std::vector<std::string> words = login_command({Login::Way::ssh, "ssh -p 2222", 7}, "me@node1", "/opt/ronde");
  EXPECT_EQ(words[2], "exec ssh -p 2222 \"$@\"");
  EXPECT_THAT(words, testing::IsSupersetOf({"BatchMode=yes", "ConnectTimeout=7"}));
  const std::size_t end = words.size();
  EXPECT_EQ(words[end - 3], "--");
  EXPECT_EQ(words[end - 2], "me@node1");
  EXPECT_EQ(words[end - 1], "exec '/opt/ronde' agent");
}

TEST(Login, SrunTakesTheHostAndBindsTheRanksToNoCore) {
  const std::vector<std::string> words = login_command({.way = Login::Way::srun}, "node1", "/opt/ronde");
  EXPECT_EQ(words[0], "srun");
  EXPECT_THAT(words, testing::IsSupersetOf({"--overlap", "--nodelist=node1", "--cpu-bind=none", "--mpi=none"}));
  EXPECT_THAT(words, testing::Contains("SLURM_PROCID")) << "of the agent's step, and of no rank's";
  EXPECT_EQ(words[words.size() - 2], "/opt/ronde");
  EXPECT_EQ(words.back(), "agent");
}

TEST(Login, ThisHostNeedsNone) {
  for (const char* const name : {"localhost", "127.0.0.1", "127.0.0.2", "::1", "node7", "node7.cluster.org"}) {
    EXPECT_TRUE(is_this_host(name, "node7.cluster.org")) << name;
  }
  for (const char* const name : {"node8", "node7.other.org", "10.0.0.7", "node"}) {
    EXPECT_FALSE(is_this_host(name, "node7.cluster.org")) << name;
  }
}

}  // namespace
}  // namespace ronde::launch
