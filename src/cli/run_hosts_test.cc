// `ronde run -H` without ssh: "localhost" and "127.0.0.1" are two hosts of one, each with an agent of its own. What
// needs real hosts is in tests/hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/launched_job.h"

namespace ronde::cli {
namespace {

using testing::HasSubstr;

std::vector<std::string> on_two_hosts(const std::string& script, std::vector<std::string> options = {}) {
  std::vector<std::string> arguments = {"run", "-H", "localhost:1,127.0.0.1:2"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"--", "bash", "-c", script});
  return arguments;
}

std::string sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::sort(lines.begin(), lines.end());
  std::string sorted;
  for (const std::string& line : lines) {
    sorted += line + "\n";
  }
  return sorted;
}

TEST(RunHosts, RanksKnowTheirPlaceOnTheirHost) {
  LaunchedJob job(
      on_two_hosts("echo $RONDE_RANK of $RONDE_SIZE, $RONDE_LOCAL_RANK of $RONDE_LOCAL_SIZE, $RONDE_ADDRESS"));
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(sorted_lines(job.output()),
            "[0] 0 of 3, 0 of 1, 127.0.0.1\n[1] 1 of 3, 0 of 2, 127.0.0.1\n[2] 2 of 3, 1 of 2, 127.0.0.1\n");
  EXPECT_EQ(job.error(), "");
  EXPECT_TRUE(job.is_clean());
}

TEST(RunHosts, OneHostThatIsThisNeedsNoAgent) {
  LaunchedJob job({"run", "-H", "localhost:2", "--", "bash", "-c", "echo $RONDE_LOCAL_SIZE $RONDE_ADDRESS"});
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(sorted_lines(job.output()), "[0] 2\n[1] 2\n");
  EXPECT_TRUE(job.is_clean());
}

TEST(RunHosts, TheFirstFailureIsNamedWithItsHost) {
  LaunchedJob job(on_two_hosts("[ $RANK = 2 ] && exit 7; sleep 1000", {"--grace", "0.1"}));
  EXPECT_EQ(job.exit_code(), 7);
  EXPECT_THAT(job.error(), HasSubstr("rank 2 on 127.0.0.1 ended with code 7 after"));
  EXPECT_TRUE(job.is_clean());
}

TEST(RunHosts, AHostThatIsLostAfterAFailureIsNotItsCause) {
  LaunchedJob job(
      on_two_hosts("trap 'echo asked' TERM; [ $RANK = 2 ] && exit 7; while :; do sleep 0.05; done", {"--grace", "3"}));
  EXPECT_TRUE(job.prints("[0] asked"));  // the launcher knows of the failure
  for (const pid_t pid : job.processes()) {
    if (read_file("/proc/" + std::to_string(pid) + "/comm") == "ronde-agent\n") {
      ::kill(pid, SIGKILL);
    }
  }
  EXPECT_EQ(job.exit_code(), 7);
  EXPECT_THAT(job.error(), HasSubstr("rank 2 on 127.0.0.1 ended with code 7 after"));
  EXPECT_THAT(job.error(),
              testing::ContainsRegex("; then host (localhost|127.0.0.1) is lost: the connection to it ended"));
  EXPECT_TRUE(job.is_clean());
}

TEST(RunHosts, KillingTheLauncherLeavesNothing) {
  LaunchedJob job(on_two_hosts("(setsid sleep 1000 &); echo up; sleep 1000"));
  EXPECT_TRUE(job.prints("[2] up"));
  ::kill(job.pid(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return job.processes().empty(); }));
}

TEST(RunHosts, InterruptOnceStopsInOrderOnAllHosts) {
  LaunchedJob job(on_two_hosts("trap 'echo saved; exit 0' INT; echo up; while :; do sleep 0.05; done"));
  for (const char* const line : {"[0] up", "[1] up", "[2] up"}) {
    EXPECT_TRUE(job.prints(line));
  }
  ::kill(job.pid(), SIGINT);
  EXPECT_EQ(job.exit_code(), 130);
  EXPECT_THAT(sorted_lines(job.output()), HasSubstr("[0] saved\n[0] up\n[1] saved\n[1] up\n[2] saved\n[2] up\n"));
  EXPECT_TRUE(job.is_clean());
}

TEST(RunHosts, ASlowReaderLosesNothingAndLosesNoHost) {
  LaunchedJob job(on_two_hosts("head -c 3000000 /dev/zero | tr '\\0' x | fold -w 100; echo"), false);
  EXPECT_TRUE(eventually([&] { return job.waiting_output() > 0; }));
  std::string output;
  EXPECT_TRUE(eventually([&] {
    char buffer[65536];
    ssize_t count = 0;
    while ((count = ::read(job.output_fd(), buffer, sizeof buffer)) > 0) {
      output.append(buffer, static_cast<std::size_t>(count));
    }
    return count == 0;
  }));
  // The begin of a line of rank 0 that is slow to end is shown, and shown again with its end when another's came
  // between.
  const std::string line = "] " + std::string(100, 'x') + "\n";
  int lines = 0;
  for (std::size_t at = output.find(line); at != std::string::npos; at = output.find(line, at + line.size())) {
    ++lines;
  }
  EXPECT_EQ(lines, 3 * 30000);
  EXPECT_EQ(job.exit_code(), 0);
}

}  // namespace
}  // namespace ronde::cli
