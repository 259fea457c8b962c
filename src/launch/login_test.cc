#include "launch/ssh_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::launch {
namespace {

TEST(SshCommand, QuotesForAnyShell) {
  EXPECT_EQ(quoted("/opt/my py/bin/ronde"), "'/opt/my py/bin/ronde'");
  EXPECT_EQ(quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(quoted("$HOME `x` \"y\""), "'$HOME `x` \"y\"'");
}

TEST(SshCommand, RunsTheAgentAndAsksNobody) {
  const std::vector<std::string> words = ssh_command({"ssh -p 2222", 7}, "me@node1", "/opt/ronde");
  EXPECT_EQ(words[2], "exec ssh -p 2222 \"$@\"");
  EXPECT_THAT(words, testing::IsSupersetOf({"BatchMode=yes", "ConnectTimeout=7"}));
  const std::size_t end = words.size();
  EXPECT_EQ(words[end - 3], "--");
  EXPECT_EQ(words[end - 2], "me@node1");
  EXPECT_EQ(words[end - 1], "exec '/opt/ronde' agent");
}

TEST(SshCommand, ThisHostNeedsNone) {
  for (const char* const name : {"localhost", "127.0.0.1", "127.0.0.2", "::1", "node7", "node7.cluster.org"}) {
    EXPECT_TRUE(is_this_host(name, "node7.cluster.org")) << name;
  }
  for (const char* const name : {"node8", "node7.other.org", "10.0.0.7", "node"}) {
    EXPECT_FALSE(is_this_host(name, "node7.cluster.org")) << name;
  }
}

}  // namespace
}  // namespace ronde::launch
