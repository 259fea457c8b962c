// `ronde run` as a person or a script meets it: real processes, real signals. Every wait is for a condition, with a
// deadline that only a fault reaches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/job_key.h"
#include "cli/launched_job.h"
#include "store/store_client.h"

namespace ronde::cli {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

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

bool is_up(const LaunchedJob& job, int ranks) {
  return eventually([&] { return job.processes().size() == 2 + kTreeProcesses * static_cast<std::size_t>(ranks); });
}

TEST(Run, EndsWithZeroWhenAllDo) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    LaunchedJob job(shell(ranks, "true"));
    EXPECT_EQ(job.exit_code(), 0);
    EXPECT_EQ(job.error(), "");
    EXPECT_TRUE(job.is_clean());
  }
}

TEST(Run, ARankThatEndsEarlyWithZeroEndsNobody) {
  LaunchedJob job(shell(2, "[ $RANK = 1 ] && exit 0; read line; echo $line"));
  EXPECT_TRUE(eventually([&] { return job.processes().size() == 3; }));  // launcher, guardian, rank 0
  job.type("still here\n");
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(job.output(), "[0] still here\n");
}

TEST(Run, EndsWithTheCodeOfTheRankThatFailedFirst) {
  // The others report only once they know that rank 1 has ended, as they would through the library.
  LaunchedJob job(shell(3,
                        "echo $$ > $TMPDIR/../pid.$RANK; if [ $RANK = 1 ]; then exit 7; fi; "
                        "until [ -s $TMPDIR/../pid.1 ] && ! kill -0 $(cat $TMPDIR/../pid.1) 2> /dev/null; "
                        "do sleep 0.01; done; exit 9",
                        {"--grace", "60"}));
  EXPECT_EQ(job.exit_code(), 7);
  EXPECT_THAT(job.error(), ContainsRegex("ronde: rank 1 on .* ended with code 7 after [0-9]+\\.[0-9] s; ranks 0, 2 "
                                         "then ended with code 9"));
}

TEST(Run, ARankKilledGives128AndTheSignal) {
  LaunchedJob job(shell(2, "if [ $RANK = 1 ]; then kill -SEGV $$; fi; sleep 1000", {"--grace", "0.05"}));
  EXPECT_EQ(job.exit_code(), 128 + SIGSEGV);
  EXPECT_THAT(job.error(), HasSubstr("was killed by signal 11 (SIGSEGV) after"));
  EXPECT_THAT(job.error(), HasSubstr("rank 0 then was killed by signal 15 (SIGTERM)"));
  EXPECT_TRUE(job.is_clean());
}

TEST(Run, WhoIgnoresSigtermIsKilled) {
  LaunchedJob job(shell(2, "trap '' TERM; echo up; if [ $RANK = 1 ]; then exit 3; fi; while true; do sleep 1000; done",
                        {"--grace", "0.3"}));
  EXPECT_EQ(job.exit_code(), 3);
  EXPECT_THAT(job.error(), HasSubstr("rank 0 then was killed by signal 9 (SIGKILL)"));
  EXPECT_TRUE(job.is_clean());
}

TEST(Run, SaysInOneSentenceThatACommandCannotBeRun) {
  LaunchedJob unknown({"run", "-n", "2", "--", "no-such-program"});
  EXPECT_EQ(unknown.exit_code(), 127);
  EXPECT_EQ(unknown.error(), "ronde: command not found: 'no-such-program' is in no folder of PATH\n");
  LaunchedJob folder({"run", "-n", "2", "--", "/"});
  EXPECT_EQ(folder.exit_code(), 126);
  EXPECT_EQ(folder.error(), "ronde: cannot run '/': Permission denied\n");
  EXPECT_TRUE(unknown.is_clean());
}

TEST(Run, WrongUsageIsTwo) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"run"},
                                                    {"run", "-n", "2"},
                                                    {"run", "-n", "0", "--", "true"},
                                                    {"fly"},
                                                    {},
                                                    {"run", "-n", "2", "--bogus", "--", "true"},
                                                    {"run", "-n", "2", "--env", "A", "--", "true"}}) {
    LaunchedJob job(arguments);
    EXPECT_EQ(job.exit_code(), 2);
    EXPECT_NE(job.error(), "");
  }
}

TEST(Run, HelpTeaches) {
  LaunchedJob run({"run", "--help"});
  EXPECT_EQ(run.exit_code(), 0);
  for (const char* word : {"ronde run -n 2 -- python train.py", "RONDE_RANK", "MASTER_PORT", "HOROVOD_RANK",
                           "OMP_NUM_THREADS", "--grace", "--output-dir", "Exit codes", "Ctrl-C"}) {
    EXPECT_THAT(run.output(), HasSubstr(word));
  }
  LaunchedJob all({"--help"});
  EXPECT_EQ(all.exit_code(), 0);
  EXPECT_THAT(all.output(), HasSubstr("ronde run -n 4 -- python train.py"));
  LaunchedJob version({"--version"});
  EXPECT_EQ(version.exit_code(), 0);
  EXPECT_THAT(version.output(), ContainsRegex("^ronde [0-9]+\\.[0-9]+\\.[0-9]+\n$"));
}

TEST(Run, TellsEachRankItsPlace) {
  LaunchedJob job(shell(3,
                        "echo $RONDE_RANK/$RONDE_SIZE $RANK/$WORLD_SIZE $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE "
                        "$MASTER_ADDR $((MASTER_PORT > 0)) $PYTHONUNBUFFERED $((OMP_NUM_THREADS > 0)) $MINE "
                        "${#RONDE_KEY}",
                        {"--env", "MINE=a b", "--env", "RANK=x"}));
  EXPECT_EQ(job.exit_code(), 0);
  for (const std::string rank : {"0", "1", "2"}) {
    EXPECT_THAT(job.output(), HasSubstr("[" + rank + "] " + rank + "/3 x/3 " + rank + "/3 127.0.0.1 1 1 1 a b 64\n"));
  }
}

TEST(Run, TheCommandsOwnDashesAreItsOwn) {
  LaunchedJob behind({"run", "-n", "1", "--", "echo", "-n", "--", "x"});
  EXPECT_EQ(behind.exit_code(), 0);
  EXPECT_EQ(behind.output(), "-- x");
  LaunchedJob without({"run", "-n", "1", "echo", "--help", "--", "x"});
  EXPECT_EQ(without.exit_code(), 0);
  EXPECT_EQ(without.output(), "--help -- x\n");
}

TEST(Run, StandardInputGoesToRankZero) {
  LaunchedJob job(shell(2, "cat; echo end"));
  job.type("hello\n");
  job.close_input();
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_THAT(job.output(), HasSubstr("[0] hello\n"));
  EXPECT_THAT(job.output(), HasSubstr("[0] end\n"));
  EXPECT_THAT(job.output(), HasSubstr("[1] end\n"));
  EXPECT_THAT(job.output(), testing::Not(HasSubstr("[1] hello")));
}

TEST(Run, KeepsTheStreamsApart) {
  LaunchedJob job(shell(2, "echo out; echo err >&2"));
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_THAT(job.output(), testing::AnyOf("[0] out\n[1] out\n", "[1] out\n[0] out\n"));
  EXPECT_THAT(job.error(), testing::AnyOf("[0] err\n[1] err\n", "[1] err\n[0] err\n"));
}

TEST(Run, OneRankKeepsTheDescriptors) {
  LaunchedJob job(shell(1, "printf 'a\\rb'; printf 'c\\n' >&2; readlink /proc/self/fd/1"));
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_THAT(job.output(), HasSubstr("a\rbpipe:"));
  EXPECT_EQ(job.error(), "c\n");
}

/// How often each line was printed.
std::map<std::string, int> counted_lines(const std::string& output) {
  std::map<std::string, int> counts;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    ++counts[line];
  }
  return counts;
}

TEST(Run, ALineIsNeverMixedWithAnother) {
  LaunchedJob job(shell(4, "for i in {1..200}; do printf \"$RANK$RANK\"; printf \"$RANK$RANK\\n\"; done"));
  EXPECT_EQ(job.exit_code(), 0);
  std::map<std::string, int> counts = counted_lines(job.output());
  // Rank 0 is shown as it prints: where the machine kept it waiting in the middle of a line, that had to give way, and
  // was shown again (LineMixer.ElsewhereTheLiveLineIsEndedAndStartsAgain).
  counts.erase("[0] 00");
  EXPECT_THAT(counts,
              ElementsAre(Pair("[0] 0000", 200), Pair("[1] 1111", 200), Pair("[2] 2222", 200), Pair("[3] 3333", 200)));
}

TEST(Run, RankZerosProgressBarIsLive) {
  LaunchedJob job(shell(2, "if [ $RANK = 0 ]; then printf '\\r10%%' >&2; read x; printf '\\r100%%\\n' >&2; fi"));
  EXPECT_TRUE(eventually([&] { return job.error() == "[0] 10%"; })) << job.error();
  job.type("\n");
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(job.error(), "[0] 10%\r[0] 100%\n");
}

TEST(Run, WritesFilesByteForByte) {
  std::string folder = testing::TempDir() + "files-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  LaunchedJob job(shell(2, "printf 'a\\rb'; echo err$RANK >&2", {"--output-dir", folder + "/logs"}));
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(read_file(folder + "/logs/rank.0/stdout"), "a\rb");
  EXPECT_EQ(read_file(folder + "/logs/rank.1/stdout"), "a\rb");
  EXPECT_EQ(read_file(folder + "/logs/rank.1/stderr"), "err1\n");
  std::filesystem::remove_all(folder);
  LaunchedJob impossible(shell(2, "true", {"--output-dir", "/proc/nothing"}));
  EXPECT_EQ(impossible.exit_code(), 125);
  EXPECT_THAT(impossible.error(), HasSubstr("cannot make the folder '/proc/nothing'"));
}

TEST(Run, InterruptOnceStopsInOrder) {
  LaunchedJob job(
      shell(2, "trap 'echo saved; exit 0' INT; echo up; while true; do sleep 0.01; done", {"--grace", "60"}));
  EXPECT_TRUE(job.prints("[0] up") && job.prints("[1] up"));
  ::kill(job.pid(), SIGINT);
  EXPECT_EQ(job.exit_code(), 130);
  EXPECT_THAT(job.output(), HasSubstr("[0] saved"));
  EXPECT_THAT(job.output(), HasSubstr("[1] saved"));
  EXPECT_THAT(job.error(), HasSubstr("ronde: stopping all ranks on SIGINT; Ctrl-C again kills them\n"));
  EXPECT_THAT(job.error(), HasSubstr("ronde: stopped by signal 2 (SIGINT) after"));
  EXPECT_TRUE(job.is_clean());
}

TEST(Run, InterruptTwiceKills) {
  LaunchedJob job(shell(2, "trap '' INT TERM; echo up; while true; do sleep 0.01; done", {"--grace", "1000"}));
  EXPECT_TRUE(job.prints("[0] up") && job.prints("[1] up"));
  // Presses that come too fast count as one.
  const RealClock clock;
  const Nanoseconds begin = clock.now();
  EXPECT_TRUE(eventually([&] {
    ::kill(job.pid(), SIGINT);
    ::poll(nullptr, 0, 300);
    return ::waitid(P_PID, static_cast<id_t>(job.pid()), nullptr, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           job.processes().empty();
  }));
  EXPECT_LT(clock.now() - begin, kPatience);
  EXPECT_EQ(job.exit_code(), 130);
  EXPECT_TRUE(job.is_clean());
}

TEST(Run, TerminateStopsAll) {
  LaunchedJob job(shell(2, kTree, {"--grace", "60"}));
  EXPECT_TRUE(is_up(job, 2));
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.exit_code(), 143);
  EXPECT_TRUE(job.is_clean());
}

TEST(Run, TerminateReachesWhoLeftTheProcessGroup) {
  LaunchedJob job(shell(1,
                        "setsid bash -c 'trap \"echo asked; exit\" TERM; echo up; while true; do sleep 0.01; done' & "
                        "wait",
                        {"--grace", "60"}));
  EXPECT_TRUE(job.prints("up"));
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.exit_code(), 143);
  EXPECT_THAT(job.output(), HasSubstr("asked"));
  EXPECT_TRUE(job.is_clean());
}

TEST(Run, WhatAWrapperShellLeavesBehindHasTheWholeGraceToSaveItsWork) {
  LaunchedJob job(shell(2,
                        "bash -c 'trap \"sleep 1.3; echo saved; exit\" TERM; echo up; "
                        "while true; do sleep 0.01; done'; true",
                        {"--grace", "60"}));
  EXPECT_TRUE(job.prints("[0] up") && job.prints("[1] up"));
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.exit_code(), 143);
  EXPECT_THAT(job.output(), HasSubstr("[0] saved\n"));
  EXPECT_THAT(job.output(), HasSubstr("[1] saved\n"));
  EXPECT_TRUE(job.is_clean());
}

TEST(Run, UserSignalsGoToTheRanks) {
  LaunchedJob job(shell(2, "trap 'echo told; exit 0' USR1; echo up; while true; do sleep 0.01; done"));
  EXPECT_TRUE(job.prints("[0] up") && job.prints("[1] up"));
  ::kill(job.pid(), SIGUSR1);
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_THAT(job.output(), HasSubstr("[1] told"));
}

TEST(Run, KillingTheLauncherLeavesNothing) {
  LaunchedJob job(shell(3, kTree));
  ASSERT_TRUE(is_up(job, 3));
  ::kill(job.pid(), SIGKILL);
  EXPECT_EQ(job.exit_code(), 137);
  EXPECT_TRUE(job.is_clean()) << "left: " << testing::PrintToString(job.processes());
}

TEST(Run, KillingTheGuardianLeavesNothing) {
  LaunchedJob job(shell(3, kTree));
  ASSERT_TRUE(is_up(job, 3));
  ::kill(job.guardian(), SIGKILL);
  EXPECT_EQ(job.exit_code(), 125);
  EXPECT_THAT(job.error(), HasSubstr("ronde: the job's guardian process was killed from outside"));
  EXPECT_TRUE(job.is_clean()) << "left: " << testing::PrintToString(job.processes());
}

TEST(Run, KillingARankLeavesNothing) {
  LaunchedJob job(shell(3, kTree, {"--grace", "0.05"}));
  ASSERT_TRUE(is_up(job, 3));
  ::kill(job.rank(1), SIGKILL);
  EXPECT_EQ(job.exit_code(), 137);
  EXPECT_THAT(job.error(), ContainsRegex("ronde: rank 1 on .* was killed by signal 9 \\(SIGKILL\\)"));
  EXPECT_TRUE(job.is_clean()) << "left: " << testing::PrintToString(job.processes());
}

TEST(Run, TheFirstToDieIsNamedThoughTheGuardianLooksLate) {
  LaunchedJob job(shell(3, "exec sleep 1000", {"--grace", "0.05"}));
  ASSERT_TRUE(eventually([&] { return job.rank(0) > 0 && job.rank(1) > 0 && job.rank(2) > 0; }));
  const pid_t ranks[] = {job.rank(0), job.rank(1), job.rank(2)};
  const pid_t guardian = job.guardian();
  ASSERT_TRUE(eventually([&] {
    return read_file("/proc/" + std::to_string(guardian) + "/comm") == "ronde-guardian\n" && state_of(guardian) == 'S';
  }));
  ::kill(guardian, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return state_of(guardian) == 'T'; }));
  for (const int rank : {2, 0, 1}) {
    ::kill(ranks[rank], rank == 2 ? SIGSEGV : SIGKILL);
    ASSERT_TRUE(eventually([&] { return state_of(ranks[rank]) == 'Z'; }));
  }
  ::kill(guardian, SIGCONT);
  EXPECT_EQ(job.exit_code(), 128 + SIGSEGV);
  EXPECT_THAT(job.error(), ContainsRegex("rank 2 on .*; ranks 0, 1 then were killed by signal 9"));
}

TEST(Run, SuspendingTheLauncherSuspendsTheJob) {
  LaunchedJob job(shell(2, "exec sleep 1000"));
  ASSERT_TRUE(eventually([&] { return job.rank(0) > 0 && job.rank(1) > 0; }));
  const auto all_are = [&](char state) {
    return eventually([&] { return state_of(job.rank(0)) == state && state_of(job.rank(1)) == state; });
  };
  ::kill(job.pid(), SIGTSTP);
  EXPECT_TRUE(eventually([&] { return state_of(job.pid()) == 'T'; }));
  EXPECT_TRUE(all_are('T'));
  ::kill(job.pid(), SIGCONT);
  EXPECT_TRUE(all_are('S'));
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.exit_code(), 143);
}

TEST(Run, ADaemonThatOutlivesTheRanksIsEnded) {
  LaunchedJob job(shell(2, "(trap '' TERM; setsid sleep 1000 > /dev/null 2>&1 &) ; true"));
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_TRUE(job.is_clean()) << "left: " << testing::PrintToString(job.processes());
}

TEST(Run, RanksStartWithDefaultsAndNothingOfOurs) {
  LaunchedJob job(shell(2,
                        "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; ls -l /proc/$$/fd | grep -c -E "
                        "'eventfd|eventpoll|signalfd|socket|pidfd'; echo limit $(ulimit -Sn)"));
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  EXPECT_EQ(job.exit_code(), 0);
  for (const std::string rank : {"[0] ", "[1] "}) {
    EXPECT_THAT(job.output(), HasSubstr(rank + "SigBlk:\t0000000000000000\n"));
    // Signals 32 and 33 are the C library's own: whoever was started by posix_spawn, as make does, has them ignored,
    // and sigaction does not let a program change that.
    EXPECT_THAT(job.output(), testing::AnyOf(HasSubstr(rank + "SigIgn:\t0000000000000000\n"),
                                             HasSubstr(rank + "SigIgn:\t0000000180000000\n")));
    EXPECT_THAT(job.output(), HasSubstr(rank + "0\n")) << "descriptors of the launcher's";
    EXPECT_THAT(job.output(), HasSubstr(rank + "limit " + std::to_string(files.rlim_cur) + "\n"));
  }
}

TEST(Run, ASlowReaderBlocksNoStop) {
  LaunchedJob job(shell(2, "yes", {"--grace", "0.05"}), /*read_output=*/false);
  // The pipe to us is full: the launcher can print no more.
  EXPECT_TRUE(eventually([&] { return job.waiting_output() == ::fcntl(job.output_fd(), F_GETPIPE_SZ); }));
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.exit_code(), 143);
  EXPECT_TRUE(job.is_clean());
}

TEST(Run, AReaderThatGoesStopsTheJob) {
  LaunchedJob job(shell(2, "while true; do echo more; sleep 0.01; done", {"--grace", "0.05"}), /*read_output=*/false);
  job.close_output();
  EXPECT_EQ(job.exit_code(), 128 + SIGPIPE);
  EXPECT_TRUE(job.is_clean());
}

TEST(Run, RanksMeetInTheStoreOfTheLauncher) {
  LaunchedJob meeting({"run", "-n", "3", "--env", "RONDE_TEST_BODY=meet", "--",
                       std::filesystem::read_symlink("/proc/self/exe").string()});
  EXPECT_EQ(meeting.exit_code(), 0) << meeting.error();
  for (const std::string rank : {"0", "1", "2"}) {
    EXPECT_THAT(meeting.output(), HasSubstr("[" + rank + "] met 0 1 2\n"));
  }
  EXPECT_TRUE(meeting.is_clean());
}

}  // namespace

/// What a rank of RanksMeetInTheStoreOfTheLauncher does.
static int meet() {
  const int rank = std::stoi(::getenv("RONDE_RANK"));
  const int size = std::stoi(::getenv("RONDE_SIZE"));
  const std::string path = ::getenv("RONDE_STORE");
  const auto store = store::connect_store(path, parse_job_key(::getenv("RONDE_KEY")).value(), kPatience);
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

}  // namespace ronde::cli

int main(int argc, char** argv) {
  if (::getenv("RONDE_TEST_BODY") != nullptr) {
    return ronde::cli::meet();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
