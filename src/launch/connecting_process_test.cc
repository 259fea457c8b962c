#include "launch/connecting_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <sstream>

namespace ronde::launch {
namespace {

constexpr Nanoseconds kLong = 60 * kSecond;

std::unique_ptr<ConnectingProcess> start_shell(const std::string& script) {
  Result<std::unique_ptr<ConnectingProcess>> process = ConnectingProcess::start({"sh", "-c", script});
  EXPECT_TRUE(process) << process.status().message();
  return std::move(*process);
}

/// All that comes until the other side is closed.
std::string read_all(const UniqueFd& from) {
  std::string all;
  std::array<char, 4096> buffer;
  ssize_t count = 0;
  while ((count = ::read(from.get(), buffer.data(), buffer.size())) > 0) {
    all.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return all;
}

TEST(ConnectingProcess, ItsInputAndOutputAreTheCallers) {
  const auto process = start_shell("read line; echo \"said $line\"");
  UniqueFd input = process->take_input();
  const UniqueFd output = process->take_output();
  ASSERT_EQ(::write(input.get(), "hello\n", 6), 6);
  input.reset();
  EXPECT_EQ(read_all(output), "said hello\n");
  process->await_end(kLong);
  EXPECT_EQ(process->code(), 0);
  EXPECT_EQ(process->errors(), "");
}

TEST(ConnectingProcess, ItsCodeIsAsAShellGivesIt) {
  const std::pair<const char*, int> cases[] = {{"exit 0", 0}, {"exit 255", 255}, {"kill -KILL $$", 128 + SIGKILL}};
  for (const auto& [script, code] : cases) {
    const auto process = start_shell(script);
    EXPECT_EQ(process->code(), -1);
    process->await_end(kLong);
    EXPECT_EQ(process->code(), code) << script;
  }
}

TEST(ConnectingProcess, WhatItSaysBeforeItsEndIsKept) {
  const auto process = start_shell("echo first >&2; echo second >&2; exit 3");
  process->await_end(kLong);
  EXPECT_EQ(process->code(), 3);
  EXPECT_EQ(process->errors(), "first\nsecond\n");
}

TEST(ConnectingProcess, OnlyTheEndOfMuchThatItSaysIsKept) {
  const auto process = start_shell("i=0; while [ $i -lt 2000 ]; do echo line$i >&2; i=$((i + 1)); done");
  process->await_end(kLong);
  EXPECT_EQ(process->errors().size(), ConnectingProcess::kKeptErrors);
  EXPECT_THAT(process->errors(), testing::EndsWith("line1998\nline1999\n"));
}

TEST(ConnectingProcess, AProgramThatCannotBeRunSaysWhy) {
  Result<std::unique_ptr<ConnectingProcess>> process = ConnectingProcess::start({"/no/such/program", "x"});
  ASSERT_TRUE(process);
  (*process)->await_end(kLong);
  EXPECT_EQ((*process)->code(), 127);
  EXPECT_EQ((*process)->errors(), "/no/such/program: No such file or directory\n");
}

TEST(ConnectingProcess, ErrorsArePolledUntilTheyAreClosed) {
  const auto process = start_shell("echo word >&2; exec 2>&-; read line");
  std::vector<pollfd> entries;
  do {
    entries.clear();
    process->watch(entries);
    if (!entries.empty()) {
      ASSERT_EQ(::poll(entries.data(), entries.size(), 60000), 1);
    }
    process->read_errors();
  } while (!entries.empty());
  EXPECT_EQ(process->errors(), "word\n");
}

TEST(ConnectingProcess, EndWaitsForOneThatEndsByItself) {
  const auto process = start_shell("read line; sleep 0.1; echo done");
  const UniqueFd output = process->take_output();
  process->take_input().reset();
  process->end(kLong);
  EXPECT_EQ(read_all(output), "done\n");
}

TEST(ConnectingProcess, EndKillsOneThatDoesNot) {
  for (const Nanoseconds grace : {Nanoseconds{0}, 20 * kMillisecond}) {
    const auto process = start_shell("exec sleep 1000");
    const UniqueFd output = process->take_output();
    process->await_end(0);
    EXPECT_EQ(process->code(), -1);
    process->end(grace);
    EXPECT_EQ(read_all(output), "") << "which ends only with the process";
    process->end(kLong);  // nothing is left to wait for
  }
}

TEST(ConnectingProcess, DestructionKillsIt) {
  auto process = start_shell("exec sleep 1000");
  const UniqueFd output = process->take_output();
  process.reset();
  EXPECT_EQ(read_all(output), "");
}

TEST(ConnectingProcess, LeadsASessionOfItsOwn) {
  const auto process = start_shell("echo $$; cat /proc/$$/stat");
  std::istringstream output(read_all(process->take_output()));
  std::string own, skipped, session;
  output >> own >> skipped >> skipped >> skipped >> skipped >> skipped >> session;
  EXPECT_FALSE(own.empty());
  EXPECT_EQ(session, own);
}

}  // namespace
}  // namespace ronde::launch
