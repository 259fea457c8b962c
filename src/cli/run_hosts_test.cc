// `ronde run -H` without ssh: "localhost" and "127.0.0.1" are two hosts of one, each with an agent of its own. What
// needs real hosts is in tests/hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/core_set.h"
#include "cli/launched_job.h"

namespace ronde::cli {
namespace {

using testing::AllOf;
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

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

// As PBS and LSF say it; Slurm itself is in tests/hosts.
TEST(RunHosts, ABatchJobsHostsAreTaken) {
  const std::string file = testing::TempDir() + "run_hosts_test." + std::to_string(::getpid());
  std::ofstream(file) << "localhost\n127.0.0.1\n127.0.0.1\n";
  const std::vector<std::string> script = {"--", "bash", "-c", "echo $RONDE_RANK of $RONDE_SIZE, $RONDE_LOCAL_SIZE"};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "run");
    arguments.insert(arguments.end(), script.begin(), script.end());
    LaunchedJob job(arguments);
    const int code = job.exit_code();
    return std::to_string(code) + "\n" + sorted_lines(job.output()) + job.error();
  };
  for (const auto& [name, value] : {std::pair("PBS_NODEFILE", file), {"LSB_MCPU_HOSTS", "localhost 1 127.0.0.1 2"}}) {
    const Variable variable(name, value);
    EXPECT_EQ(run({}), "0\n[0] 0 of 3, 1\n[1] 1 of 3, 2\n[2] 2 of 3, 2\n");
    EXPECT_EQ(run({"-n", "2", "--map-by", "node"}), "0\n[0] 0 of 2, 1\n[1] 1 of 2, 1\n");
    EXPECT_EQ(run({"-H", "localhost:2"}), "0\n[0] 0 of 2, 2\n[1] 1 of 2, 2\n") << "said otherwise";
    EXPECT_THAT(run({"-n", "4"}), AllOf(HasSubstr("2\n"), HasSubstr("too little room"), HasSubstr("-H says where")));
    const Variable rank("RONDE_RANK", "0");
    EXPECT_EQ(run({"-n", "2"}), "0\n[0] 0 of 2, 2\n[1] 1 of 2, 2\n") << "in a rank of another job";
  }
  std::filesystem::remove(file);
  const Variable gone("PBS_NODEFILE", file);
  EXPECT_THAT(run({}), AllOf(HasSubstr("those of the batch job are unclear"), HasSubstr(file)));
}

TEST(RunHosts, RanksAreBoundWhereTheyAreToBe) {
  // nproc takes what a program is told there for an answer.
  const auto cores = [](const char* how, const std::string& hosts) {
    LaunchedJob job(
        {"run", "--no-prefix", "--bind-to", how, "-H", hosts, "--", "env", "-u", "OMP_NUM_THREADS", "nproc"});
    EXPECT_EQ(job.exit_code(), 0) << job.error();
    return job.output();
  };
  const std::size_t all = CoreSet::of_this_thread().cores().size();
  const auto lines = [](std::size_t each) { return std::to_string(each) + "\n" + std::to_string(each) + "\n"; };
  for (const char* hosts : {"localhost:2", "localhost:1,127.0.0.1:1"}) {
    const std::size_t ranks_on_each = std::string(hosts).find(',') == std::string::npos ? 2 : 1;
    EXPECT_EQ(cores("none", hosts), lines(all));
    EXPECT_EQ(cores("core", hosts), lines(std::max<std::size_t>(1, all / ranks_on_each)));
  }
  LaunchedJob wrong({"run", "-n", "1", "--bind-to", "socket", "--", "true"});
  EXPECT_EQ(wrong.exit_code(), 2);
  EXPECT_THAT(wrong.error(), HasSubstr("expected none, core or numa"));
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
