// `ronde run` as a person or a script meets it: real processes, real signals. Every wait is for a condition, with a
// deadline that only a fault reaches.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/unique_fd.h"
#include "launch/process_tree.h"
#include "store/unix_store.h"

namespace {

using ronde::Nanoseconds;
using ronde::kMillisecond;
using ronde::kSecond;
using ronde::UniqueFd;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr Nanoseconds kPatience = 60 * kSecond;

bool eventually(const std::function<bool()>& condition) {
  const ronde::RealClock clock;
  const Nanoseconds deadline = clock.now() + kPatience;
  while (!condition()) {
    if (clock.now() > deadline) {
      return false;
    }
    ::poll(nullptr, 0, 2);
  }
  return true;
}

char state_of(pid_t pid) {
  for (const auto& process : ronde::launch::list_processes()) {
    if (process.pid == pid) {
      return process.state;
    }
  }
  return '-';
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A run of the program, with a folder of its own for temporary files, and a mark in the environment by which every
/// process of the job is found, whatever it has become.
class Launch {
 public:
  explicit Launch(std::vector<std::string> arguments, bool read_output = true) : read_output_(read_output) {
    folder_ = testing::TempDir() + "run-XXXXXX";
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    mark_ = "RONDE_TEST_MARK=" + folder_;
    arguments.insert(arguments.begin(), RONDE_EXECUTABLE);
    for (UniqueFd* end : {&output_, &error_, &input_}) {
      int ends[2];
      EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
      end->reset(ends[end == &input_ ? 1 : 0]);
      theirs_.emplace_back(ends[end == &input_ ? 0 : 1]);
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      become(arguments);
    }
    theirs_.clear();
    ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(error_.get(), F_SETFL, O_NONBLOCK);
  }

  ~Launch() {
    for (const pid_t pid : processes()) {
      ::kill(pid, SIGKILL);
    }
    if (!ended_) {
      ::waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  pid_t pid() const { return pid_; }
  const std::string& folder() const { return folder_; }
  void close_input() { input_.reset(); }
  void close_output() { output_.reset(); }
  int output_fd() const { return output_.get(); }
  /// Bytes that wait to be read.
  int waiting_output() const {
    int bytes = 0;
    ::ioctl(output_.get(), FIONREAD, &bytes);
    return bytes;
  }
  void type(const std::string& text) {
    EXPECT_EQ(::write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  /// The exit code as a shell gives it; -1 if the launcher does not end.
  int exit_code() {
    int status = 0;
    ended_ = eventually([&] {
      gather();
      return ::waitpid(pid_, &status, WNOHANG) == pid_;
    });
    gather();
    if (!ended_) {
      return -1;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  const std::string& output() {
    gather();
    return output_text_;
  }
  const std::string& error() {
    gather();
    return error_text_;
  }
  bool prints(const std::string& text) {
    return eventually([&] { return output().find(text) != std::string::npos; });
  }

  /// All living processes of the job, launcher and guardian included.
  std::vector<pid_t> processes() const {
    std::vector<pid_t> found;
    for (const auto& process : ronde::launch::list_processes()) {
      const std::string path = "/proc/" + std::to_string(process.pid) + "/environ";
      if (process.pid != ::getpid() && process.state != 'Z' && read_file(path).find(mark_) != std::string::npos) {
        found.push_back(process.pid);
      }
    }
    return found;
  }
  /// The launcher's only child.
  pid_t guardian() const {
    for (const auto& process : ronde::launch::list_processes()) {
      if (process.parent == pid_) {
        return process.pid;
      }
    }
    return -1;
  }
  /// The process of a rank, 0 if there is none (yet).
  pid_t rank(int number) const {
    const std::string place = "RONDE_RANK=" + std::to_string(number);
    const pid_t parent = guardian();
    for (const auto& process : ronde::launch::list_processes()) {
      // An adopted daemon has the rank's environment too, but its session is its own.
      const std::string path = "/proc/" + std::to_string(process.pid) + "/environ";
      if (process.parent == parent && ::getsid(process.pid) == parent &&
          read_file(path).find(place + std::string(1, '\0')) != std::string::npos) {
        return process.pid;
      }
    }
    return 0;
  }
  /// Nothing of the job is left: no process, no folder with a socket.
  bool is_clean() const {
    return eventually([&] {
      return processes().empty() && std::filesystem::is_empty(folder_ + "/tmp");
    });
  }

 private:
  [[noreturn]] void become(const std::vector<std::string>& arguments) {
    // A test runner may ignore signals.
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) {
      ::signal(number, SIG_DFL);
    }
    ::dup2(theirs_[2].get(), 0);
    ::dup2(theirs_[0].get(), 1);
    ::dup2(theirs_[1].get(), 2);
    std::filesystem::create_directory(folder_ + "/tmp");
    ::unsetenv("XDG_RUNTIME_DIR");
    ::unsetenv("OMP_NUM_THREADS");
    ::setenv("TMPDIR", (folder_ + "/tmp").c_str(), 1);
    ::putenv(mark_.data());
    std::vector<char*> pointers;
    for (const std::string& each : arguments) {
      pointers.push_back(const_cast<char*>(each.c_str()));
    }
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(99);
  }

  void gather() {
    if (!read_output_) {
      return;
    }
    for (const auto& [fd, text] : {std::pair{output_.get(), &output_text_}, std::pair{error_.get(), &error_text_}}) {
      char buffer[4096];
      ssize_t count = 0;
      while ((count = ::read(fd, buffer, sizeof buffer)) > 0) {
        text->append(buffer, static_cast<std::size_t>(count));
      }
    }
  }

  std::string folder_;
  std::string mark_;
  bool read_output_;
  pid_t pid_ = -1;
  bool ended_ = false;
  UniqueFd output_;
  UniqueFd error_;
  UniqueFd input_;
  std::vector<UniqueFd> theirs_;
  std::string output_text_;
  std::string error_text_;
};

std::vector<std::string> shell(int ranks, const std::string& script, std::vector<std::string> options = {}) {
  std::vector<std::string> arguments = {"run", "-n", std::to_string(ranks)};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"--", "bash", "-c", script});
  return arguments;
}

/// A rank as bad as they come: a worker, a child in a session of its own, and a daemon whose parent is gone; under a
/// wrapper shell. Six processes a rank with both shells.
constexpr const char* kTree = R"(bash -c '
  sleep 1000 &
  setsid sleep 1000 &
  (setsid bash -c "sleep 1000 & wait" &)
  echo up; wait'; true)";
constexpr std::size_t kTreeProcesses = 6;

bool is_up(const Launch& launch, int ranks) {
  return eventually([&] {
    return launch.processes().size() == 2 + kTreeProcesses * static_cast<std::size_t>(ranks);
  });
}

TEST(Run, EndsWithZeroWhenAllDo) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    Launch launch(shell(ranks, "true"));
    EXPECT_EQ(launch.exit_code(), 0);
    EXPECT_EQ(launch.error(), "");
    EXPECT_TRUE(launch.is_clean());
  }
}

TEST(Run, ARankThatEndsEarlyWithZeroEndsNobody) {
  Launch launch(shell(2, "[ $RANK = 1 ] && exit 0; read line; echo $line"));
  EXPECT_TRUE(eventually([&] { return launch.processes().size() == 3; }));  // launcher, guardian, rank 0
  launch.type("still here\n");
  EXPECT_EQ(launch.exit_code(), 0);
  EXPECT_EQ(launch.output(), "[0] still here\n");
}

TEST(Run, EndsWithTheCodeOfTheRankThatFailedFirst) {
  // The others report only once they know that rank 1 has ended, as they would through the library.
  Launch launch(shell(3, "echo $$ > $TMPDIR/../pid.$RANK; if [ $RANK = 1 ]; then exit 7; fi; "
                         "until [ -s $TMPDIR/../pid.1 ] && ! kill -0 $(cat $TMPDIR/../pid.1) 2> /dev/null; "
                         "do sleep 0.01; done; exit 9", {"--grace", "60"}));
  EXPECT_EQ(launch.exit_code(), 7);
  EXPECT_THAT(launch.error(), ContainsRegex("ronde: rank 1 on .* ended with code 7 after [0-9]+\\.[0-9] s; ranks 0, 2 "
                                            "then ended with code 9"));
}

TEST(Run, ARankKilledGives128AndTheSignal) {
  Launch launch(shell(2, "if [ $RANK = 1 ]; then kill -SEGV $$; fi; sleep 1000", {"--grace", "0.05"}));
  EXPECT_EQ(launch.exit_code(), 128 + SIGSEGV);
  EXPECT_THAT(launch.error(), HasSubstr("was killed by signal 11 (SIGSEGV) after"));
  EXPECT_THAT(launch.error(), HasSubstr("rank 0 then was killed by signal 15 (SIGTERM)"));
  EXPECT_TRUE(launch.is_clean());
}

TEST(Run, WhoIgnoresSigtermIsKilled) {
  Launch launch(shell(2, "trap '' TERM; echo up; if [ $RANK = 1 ]; then exit 3; fi; while true; do sleep 1000; done",
                      {"--grace", "0.3"}));
  EXPECT_EQ(launch.exit_code(), 3);
  EXPECT_THAT(launch.error(), HasSubstr("rank 0 then was killed by signal 9 (SIGKILL)"));
  EXPECT_TRUE(launch.is_clean());
}

TEST(Run, SaysInOneSentenceThatACommandCannotBeRun) {
  Launch unknown({"run", "-n", "2", "--", "no-such-program"});
  EXPECT_EQ(unknown.exit_code(), 127);
  EXPECT_EQ(unknown.error(), "ronde: command not found: 'no-such-program' is in no folder of PATH\n");
  Launch folder({"run", "-n", "2", "--", "/"});
  EXPECT_EQ(folder.exit_code(), 126);
  EXPECT_EQ(folder.error(), "ronde: cannot run '/': Permission denied\n");
  EXPECT_TRUE(unknown.is_clean());
}

TEST(Run, WrongUsageIsTwo) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run"}, {"run", "-n", "2"}, {"run", "-n", "0", "--", "true"}, {"fly"}, {},
        {"run", "-n", "2", "--bogus", "--", "true"}, {"run", "-n", "2", "--env", "A", "--", "true"}}) {
    Launch launch(arguments);
    EXPECT_EQ(launch.exit_code(), 2);
    EXPECT_NE(launch.error(), "");
  }
}

TEST(Run, HelpTeaches) {
  Launch run({"run", "--help"});
  EXPECT_EQ(run.exit_code(), 0);
  for (const char* word : {"ronde run -n 2 -- python train.py", "RONDE_RANK", "MASTER_PORT", "HOROVOD_RANK",
                           "OMP_NUM_THREADS", "--grace", "--output-dir", "Exit codes", "Ctrl-C"}) {
    EXPECT_THAT(run.output(), HasSubstr(word));
  }
  Launch all({"--help"});
  EXPECT_EQ(all.exit_code(), 0);
  EXPECT_THAT(all.output(), HasSubstr("ronde run -n 4 -- python train.py"));
  Launch version({"--version"});
  EXPECT_EQ(version.exit_code(), 0);
  EXPECT_THAT(version.output(), ContainsRegex("^ronde [0-9]+\\.[0-9]+\\.[0-9]+\n$"));
}

TEST(Run, TellsEachRankItsPlace) {
  Launch launch(shell(3, "echo $RONDE_RANK/$RONDE_SIZE $RANK/$WORLD_SIZE $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE "
                         "$MASTER_ADDR $((MASTER_PORT > 0)) $PYTHONUNBUFFERED $((OMP_NUM_THREADS > 0)) $MINE "
                         "${#RONDE_KEY}",
                      {"--env", "MINE=a b", "--env", "RANK=x"}));
  EXPECT_EQ(launch.exit_code(), 0);
  for (const std::string rank : {"0", "1", "2"}) {
    EXPECT_THAT(launch.output(),
                HasSubstr("[" + rank + "] " + rank + "/3 x/3 " + rank + "/3 127.0.0.1 1 1 1 a b 64\n"));
  }
}

TEST(Run, TheCommandsOwnDashesAreItsOwn) {
  Launch behind({"run", "-n", "1", "--", "echo", "-n", "--", "x"});
  EXPECT_EQ(behind.exit_code(), 0);
  EXPECT_EQ(behind.output(), "-- x");
  Launch without({"run", "-n", "1", "echo", "--help", "--", "x"});
  EXPECT_EQ(without.exit_code(), 0);
  EXPECT_EQ(without.output(), "--help -- x\n");
}

TEST(Run, StandardInputGoesToRankZero) {
  Launch launch(shell(2, "cat; echo end"));
  launch.type("hello\n");
  launch.close_input();
  EXPECT_EQ(launch.exit_code(), 0);
  EXPECT_THAT(launch.output(), HasSubstr("[0] hello\n"));
  EXPECT_THAT(launch.output(), HasSubstr("[0] end\n"));
  EXPECT_THAT(launch.output(), HasSubstr("[1] end\n"));
  EXPECT_THAT(launch.output(), testing::Not(HasSubstr("[1] hello")));
}

TEST(Run, KeepsTheStreamsApart) {
  Launch launch(shell(2, "echo out; echo err >&2"));
  EXPECT_EQ(launch.exit_code(), 0);
  EXPECT_THAT(launch.output(), testing::AnyOf("[0] out\n[1] out\n", "[1] out\n[0] out\n"));
  EXPECT_THAT(launch.error(), testing::AnyOf("[0] err\n[1] err\n", "[1] err\n[0] err\n"));
}

TEST(Run, OneRankKeepsTheDescriptors) {
  Launch launch(shell(1, "printf 'a\\rb'; printf 'c\\n' >&2; readlink /proc/self/fd/1"));
  EXPECT_EQ(launch.exit_code(), 0);
  EXPECT_THAT(launch.output(), HasSubstr("a\rbpipe:"));
  EXPECT_EQ(launch.error(), "c\n");
}

TEST(Run, ALineIsNeverMixedWithAnother) {
  Launch launch(shell(4, "for i in {1..200}; do printf \"$RANK$RANK\"; printf \"$RANK$RANK\\n\"; done"));
  EXPECT_EQ(launch.exit_code(), 0);
  std::istringstream lines(launch.output());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, ContainsRegex("^\\[([0-3])\\] (0000|1111|2222|3333)$"));
    EXPECT_EQ(line[1], line[4]);
  }
  // Where rank 0's unfinished line had to give way it is shown again; of it, at least, all are there.
  EXPECT_GE(count, 800);
}

TEST(Run, RankZerosProgressBarIsLive) {
  Launch launch(shell(2, "if [ $RANK = 0 ]; then printf '\\r10%%' >&2; read x; printf '\\r100%%\\n' >&2; fi"));
  EXPECT_TRUE(eventually([&] { return launch.error() == "[0] 10%"; })) << launch.error();
  launch.type("\n");
  EXPECT_EQ(launch.exit_code(), 0);
  EXPECT_EQ(launch.error(), "[0] 10%\r[0] 100%\n");
}

TEST(Run, WritesFilesByteForByte) {
  std::string folder = testing::TempDir() + "files-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  Launch launch(shell(2, "printf 'a\\rb'; echo err$RANK >&2", {"--output-dir", folder + "/logs"}));
  EXPECT_EQ(launch.exit_code(), 0);
  EXPECT_EQ(read_file(folder + "/logs/rank.0/stdout"), "a\rb");
  EXPECT_EQ(read_file(folder + "/logs/rank.1/stdout"), "a\rb");
  EXPECT_EQ(read_file(folder + "/logs/rank.1/stderr"), "err1\n");
  std::filesystem::remove_all(folder);
  Launch impossible(shell(2, "true", {"--output-dir", "/proc/nothing"}));
  EXPECT_EQ(impossible.exit_code(), 125);
  EXPECT_THAT(impossible.error(), HasSubstr("cannot make the folder '/proc/nothing'"));
}

TEST(Run, InterruptOnceStopsInOrder) {
  Launch launch(shell(2, "trap 'echo saved; exit 0' INT; echo up; while true; do sleep 0.01; done", {"--grace", "60"}));
  EXPECT_TRUE(launch.prints("[0] up") && launch.prints("[1] up"));
  ::kill(launch.pid(), SIGINT);
  EXPECT_EQ(launch.exit_code(), 130);
  EXPECT_THAT(launch.output(), HasSubstr("[0] saved"));
  EXPECT_THAT(launch.output(), HasSubstr("[1] saved"));
  EXPECT_THAT(launch.error(), HasSubstr("ronde: stopping all ranks on SIGINT; Ctrl-C again kills them\n"));
  EXPECT_THAT(launch.error(), HasSubstr("ronde: stopped by signal 2 (SIGINT) after"));
  EXPECT_TRUE(launch.is_clean());
}

TEST(Run, InterruptTwiceKills) {
  Launch launch(shell(2, "trap '' INT TERM; echo up; while true; do sleep 0.01; done", {"--grace", "1000"}));
  EXPECT_TRUE(launch.prints("[0] up") && launch.prints("[1] up"));
  // Presses that come too fast count as one.
  const ronde::RealClock clock;
  const Nanoseconds begin = clock.now();
  EXPECT_TRUE(eventually([&] {
    ::kill(launch.pid(), SIGINT);
    ::poll(nullptr, 0, 300);
    return ::waitid(P_PID, static_cast<id_t>(launch.pid()), nullptr, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           launch.processes().empty();
  }));
  EXPECT_LT(clock.now() - begin, kPatience);
  EXPECT_EQ(launch.exit_code(), 130);
  EXPECT_TRUE(launch.is_clean());
}

TEST(Run, TerminateStopsAll) {
  Launch launch(shell(2, kTree, {"--grace", "60"}));
  EXPECT_TRUE(is_up(launch, 2));
  ::kill(launch.pid(), SIGTERM);
  EXPECT_EQ(launch.exit_code(), 143);
  EXPECT_TRUE(launch.is_clean());
}

TEST(Run, TerminateReachesWhoLeftTheProcessGroup) {
  Launch launch(shell(1, "setsid bash -c 'trap \"echo asked; exit\" TERM; echo up; while true; do sleep 0.01; done' & "
                         "wait", {"--grace", "60"}));
  EXPECT_TRUE(launch.prints("up"));
  ::kill(launch.pid(), SIGTERM);
  EXPECT_EQ(launch.exit_code(), 143);
  EXPECT_THAT(launch.output(), HasSubstr("asked"));
  EXPECT_TRUE(launch.is_clean());
}

TEST(Run, WhatAWrapperShellLeavesBehindHasTheWholeGraceToSaveItsWork) {
  Launch launch(shell(2, "bash -c 'trap \"sleep 1.3; echo saved; exit\" TERM; echo up; "
                         "while true; do sleep 0.01; done'; true", {"--grace", "60"}));
  EXPECT_TRUE(launch.prints("[0] up") && launch.prints("[1] up"));
  ::kill(launch.pid(), SIGTERM);
  EXPECT_EQ(launch.exit_code(), 143);
  EXPECT_THAT(launch.output(), HasSubstr("[0] saved\n"));
  EXPECT_THAT(launch.output(), HasSubstr("[1] saved\n"));
  EXPECT_TRUE(launch.is_clean());
}

TEST(Run, UserSignalsGoToTheRanks) {
  Launch launch(shell(2, "trap 'echo told; exit 0' USR1; echo up; while true; do sleep 0.01; done"));
  EXPECT_TRUE(launch.prints("[0] up") && launch.prints("[1] up"));
  ::kill(launch.pid(), SIGUSR1);
  EXPECT_EQ(launch.exit_code(), 0);
  EXPECT_THAT(launch.output(), HasSubstr("[1] told"));
}

TEST(Run, KillingTheLauncherLeavesNothing) {
  Launch launch(shell(3, kTree));
  ASSERT_TRUE(is_up(launch, 3));
  ::kill(launch.pid(), SIGKILL);
  EXPECT_EQ(launch.exit_code(), 137);
  EXPECT_TRUE(launch.is_clean()) << "left: " << testing::PrintToString(launch.processes());
}

TEST(Run, KillingTheGuardianLeavesNothing) {
  Launch launch(shell(3, kTree));
  ASSERT_TRUE(is_up(launch, 3));
  ::kill(launch.guardian(), SIGKILL);
  EXPECT_EQ(launch.exit_code(), 125);
  EXPECT_THAT(launch.error(), HasSubstr("ronde: the job's guardian process was killed from outside"));
  EXPECT_TRUE(launch.is_clean()) << "left: " << testing::PrintToString(launch.processes());
}

TEST(Run, KillingARankLeavesNothing) {
  Launch launch(shell(3, kTree, {"--grace", "0.05"}));
  ASSERT_TRUE(is_up(launch, 3));
  ::kill(launch.rank(1), SIGKILL);
  EXPECT_EQ(launch.exit_code(), 137);
  EXPECT_THAT(launch.error(), ContainsRegex("ronde: rank 1 on .* was killed by signal 9 \\(SIGKILL\\)"));
  EXPECT_TRUE(launch.is_clean()) << "left: " << testing::PrintToString(launch.processes());
}

TEST(Run, TheFirstToDieIsNamedThoughTheGuardianLooksLate) {
  Launch launch(shell(3, "exec sleep 1000", {"--grace", "0.05"}));
  ASSERT_TRUE(eventually([&] { return launch.rank(0) > 0 && launch.rank(1) > 0 && launch.rank(2) > 0; }));
  const pid_t ranks[] = {launch.rank(0), launch.rank(1), launch.rank(2)};
  const pid_t guardian = launch.guardian();
  ASSERT_TRUE(eventually([&] { return read_file("/proc/" + std::to_string(guardian) + "/comm") == "ronde-guardian\n" &&
                                      state_of(guardian) == 'S'; }));
  ::kill(guardian, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return state_of(guardian) == 'T'; }));
  for (const int rank : {2, 0, 1}) {
    ::kill(ranks[rank], rank == 2 ? SIGSEGV : SIGKILL);
    ASSERT_TRUE(eventually([&] { return state_of(ranks[rank]) == 'Z'; }));
  }
  ::kill(guardian, SIGCONT);
  EXPECT_EQ(launch.exit_code(), 128 + SIGSEGV);
  EXPECT_THAT(launch.error(), ContainsRegex("rank 2 on .*; ranks 0, 1 then were killed by signal 9"));
}

TEST(Run, SuspendingTheLauncherSuspendsTheJob) {
  Launch launch(shell(2, "exec sleep 1000"));
  ASSERT_TRUE(eventually([&] { return launch.rank(0) > 0 && launch.rank(1) > 0; }));
  const auto all_are = [&](char state) {
    return eventually([&] { return state_of(launch.rank(0)) == state && state_of(launch.rank(1)) == state; });
  };
  ::kill(launch.pid(), SIGTSTP);
  EXPECT_TRUE(eventually([&] { return state_of(launch.pid()) == 'T'; }));
  EXPECT_TRUE(all_are('T'));
  ::kill(launch.pid(), SIGCONT);
  EXPECT_TRUE(all_are('S'));
  ::kill(launch.pid(), SIGTERM);
  EXPECT_EQ(launch.exit_code(), 143);
}

TEST(Run, ADaemonThatOutlivesTheRanksIsEnded) {
  Launch launch(shell(2, "(trap '' TERM; setsid sleep 1000 > /dev/null 2>&1 &) ; true"));
  EXPECT_EQ(launch.exit_code(), 0);
  EXPECT_TRUE(launch.is_clean()) << "left: " << testing::PrintToString(launch.processes());
}

TEST(Run, RanksStartWithDefaultsAndNothingOfOurs) {
  Launch launch(shell(2, "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; ls -l /proc/$$/fd | grep -c -E "
                         "'eventfd|eventpoll|signalfd|socket|pidfd'; echo limit $(ulimit -Sn)"));
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  EXPECT_EQ(launch.exit_code(), 0);
  for (const std::string rank : {"[0] ", "[1] "}) {
    EXPECT_THAT(launch.output(), HasSubstr(rank + "SigBlk:\t0000000000000000\n"));
    EXPECT_THAT(launch.output(), HasSubstr(rank + "SigIgn:\t0000000000000000\n"));
    EXPECT_THAT(launch.output(), HasSubstr(rank + "0\n")) << "descriptors of the launcher's";
    EXPECT_THAT(launch.output(), HasSubstr(rank + "limit " + std::to_string(files.rlim_cur) + "\n"));
  }
}

TEST(Run, ASlowReaderBlocksNoStop) {
  Launch launch(shell(2, "yes", {"--grace", "0.05"}), /*read_output=*/false);
  // The pipe to us is full: the launcher can print no more.
  EXPECT_TRUE(eventually([&] { return launch.waiting_output() == ::fcntl(launch.output_fd(), F_GETPIPE_SZ); }));
  ::kill(launch.pid(), SIGTERM);
  EXPECT_EQ(launch.exit_code(), 143);
  EXPECT_TRUE(launch.is_clean());
}

TEST(Run, AReaderThatGoesStopsTheJob) {
  Launch launch(shell(2, "while true; do echo more; sleep 0.01; done", {"--grace", "0.05"}), /*read_output=*/false);
  launch.close_output();
  EXPECT_EQ(launch.exit_code(), 128 + SIGPIPE);
  EXPECT_TRUE(launch.is_clean());
}

TEST(Run, RanksMeetInTheStoreOfTheLauncher) {
  Launch meeting({"run", "-n", "3", "--env", "RONDE_TEST_BODY=meet", "--",
                  std::filesystem::read_symlink("/proc/self/exe").string()});
  EXPECT_EQ(meeting.exit_code(), 0) << meeting.error();
  for (const std::string rank : {"0", "1", "2"}) {
    EXPECT_THAT(meeting.output(), HasSubstr("[" + rank + "] met 0 1 2\n"));
  }
  EXPECT_TRUE(meeting.is_clean());
}

/// What a rank of RanksMeetInTheStoreOfTheLauncher does.
int meet() {
  const int rank = std::stoi(::getenv("RONDE_RANK"));
  const int size = std::stoi(::getenv("RONDE_SIZE"));
  const std::string path = std::string(::getenv("RONDE_STORE")).substr(5);  // "unix:"
  const auto store =
      ronde::store::connect_unix_store(path, ronde::parse_job_key(::getenv("RONDE_KEY")).value(), kPatience);
  if (!store) {
    std::fprintf(stderr, "%s\n", store.status().message().c_str());
    return 1;
  }
  auto all = store.value()->exchange("init/1", rank, size, {{static_cast<std::byte>(rank)}, {}}, kPatience);
  if (!all) {
    std::fprintf(stderr, "%s\n", all.status().message().c_str());
    return 1;
  }
  std::printf("met");
  for (const auto& value : all.value()) {
    std::printf(" %d", static_cast<int>(value.bytes[0]));
  }
  std::printf("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (::getenv("RONDE_TEST_BODY") != nullptr) {
    return meet();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
