#include "launch/rank_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace ronde::launch {
namespace {

rlimit present_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

/// What the command prints when it is started with this environment.
std::string output_of(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  RankStart start{.rank = 0, .environment = environment, .input = {}, .output = UniqueFd(ends[1]), .error = {}};
  const StartedRank started = start_rank(command, start, present_limit());
  EXPECT_EQ(started.error_number, 0);
  start.output.reset();
  std::string text;
  char buffer[256];
  ssize_t count = 0;
  while ((count = ::read(reader.get(), buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  int status = 0;
  ::waitpid(started.pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return text;
}

TEST(RankProcess, HasItsEnvironmentAndAGroupOfItsOwn) {
  EXPECT_EQ(output_of({"/bin/sh", "-c", "echo $A; ps -o pgid= -p $$ | tr -d ' ' | grep -c \"^$$\\$\""},
                      {"A=b c", "PATH=/bin:/usr/bin"}),
            "b c\n1\n");
}

TEST(RankProcess, IsSearchedInItsOwnPath) {
  EXPECT_EQ(output_of({"echo", "found"}, {"PATH=/bin:/usr/bin"}), "found\n");
  const RankStart start{.rank = 0, .environment = {"PATH=/nowhere"}, .input = {}, .output = {}, .error = {}};
  EXPECT_EQ(start_rank({"echo"}, start, present_limit()).error_number, ENOENT);
}

TEST(RankProcess, SaysWhyThereIsNone) {
  const RankStart start{.rank = 0, .environment = {"PATH=/bin"}, .input = {}, .output = {}, .error = {}};
  const StartedRank folder = start_rank({"/"}, start, present_limit());
  EXPECT_EQ(folder.error_number, EACCES);
  EXPECT_TRUE(folder.of_exec);
  EXPECT_EQ(folder.pid, -1);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "the child that could not start is reaped";
}

}  // namespace
}  // namespace ronde::launch
