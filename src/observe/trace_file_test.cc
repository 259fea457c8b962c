#include "observe/trace_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/log.h"

namespace ronde::observe {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class TraceFileTest : public testing::Test {
 protected:
  TraceFileTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "ronde_trace_XXXXXX").string();
    folder_ = ::mkdtemp(folder.data());
    path_ = (folder_ / "trace.json").string();
    set_log_sink([this](LogLevel, int, const std::string& line) { log_.push_back(line); });
  }
  ~TraceFileTest() override {
    set_log_sink({});
    std::filesystem::remove_all(folder_);
  }

  static TraceFile::Options options() {
    TraceFile::Options options;
    options.lost_event = [](std::uint64_t events) {
      return R"({"name":"DROPPED","events":)" + std::to_string(events) + "}";
    };
    return options;
  }
  static std::string event(int number) { return R"({"n":)" + std::to_string(number) + "}"; }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }
  json parsed() const { return json::parse(text()); }
  std::filesystem::path folder_;
  std::string path_;
  std::vector<std::string> log_;
};

TEST_F(TraceFileTest, HoldsWhatWasPutInOrder) {
  {
    auto file = TraceFile::create(path_, R"({"first":1})", options());
    ASSERT_TRUE(file) << file.status().message();
    EXPECT_EQ(parsed(), json::parse(R"([{"first":1}])")) << "valid before the first event";
    for (int i = 0; i < 20000; ++i) {
      ASSERT_TRUE(file.value()->put(event(i)));
    }
  }
  const json all = parsed();
  ASSERT_EQ(all.size(), 20001u);
  for (int i = 0; i < 20000; ++i) {
    ASSERT_EQ(all[static_cast<std::size_t>(i) + 1]["n"], i);
  }
  EXPECT_TRUE(log_.empty());
}

TEST_F(TraceFileTest, WhatFindsNoRoomIsCountedAndTheFileAndTheLogSaySo) {
  std::promise<void> held;
  std::promise<void> go;
  TraceFile::Options few = options();
  few.room = 100;
  std::atomic<bool> first{true};
  few.before_write = [&] {
    if (first.exchange(false)) {
      held.set_value();
      go.get_future().wait();  // a disk that does not answer
    }
  };
  {
    auto file = TraceFile::create(path_, event(-1), few);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file.value()->put(event(0)));
    held.get_future().wait();
    int accepted = 0;
    while (file.value()->put(event(1))) {
      ++accepted;
    }
    EXPECT_EQ(accepted, 11);
    EXPECT_FALSE(file.value()->put(event(2), 0, 2));
    EXPECT_EQ(file.value()->lost(), 3u);
    go.set_value();
  }
  const json all = parsed();
  ASSERT_EQ(all.size(), 14u);
  EXPECT_EQ(all.back()["name"], "DROPPED");
  EXPECT_EQ(all.back()["events"], 3);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_THAT(log_[0], HasSubstr("has gaps"));
}

TEST_F(TraceFileTest, WhatWasReservedIsAlwaysThere) {
  std::promise<void> held;
  std::promise<void> go;
  TraceFile::Options few = options();
  few.room = 100;
  std::atomic<bool> first{true};
  few.before_write = [&] {
    if (first.exchange(false)) {
      held.set_value();
      go.get_future().wait();
    }
  };
  {
    auto file = TraceFile::create(path_, event(-1), few);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file.value()->put(event(0)));
    held.get_future().wait();
    ASSERT_TRUE(file.value()->put(event(1), 80));
    EXPECT_FALSE(file.value()->put(event(2), 80)) << "its end would find no room";
    EXPECT_FALSE(file.value()->put(R"({"a":"rather long"})"));
    file.value()->put_reserved(event(3), 80);
    go.set_value();
  }
  EXPECT_EQ(parsed()[2]["n"], 1);
  EXPECT_EQ(parsed()[3]["n"], 3);
}

TEST_F(TraceFileTest, APathThatCannotBeWrittenIsOneSentence) {
  for (const std::string& path : {folder_.string(), (folder_ / "none" / "x.json").string()}) {
    const auto file = TraceFile::create(path, event(0), options());
    ASSERT_FALSE(file);
    EXPECT_EQ(file.status().code(), Code::system_error);
    EXPECT_THAT(file.status().message(), HasSubstr("the timeline file '" + path + "' cannot be written: open: "));
  }
}

TEST_F(TraceFileTest, AFullDiskLeavesAValidFileAndIsSaidOnce) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = ::signal(SIGXFSZ, SIG_IGN);
  std::uint64_t lost = 0;
  {
    auto file = TraceFile::create(path_, event(-1), options());
    ASSERT_TRUE(file);
    rlimit small = before;
    small.rlim_cur = 2000;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 1000; ++i) {
      file.value()->put(event(i));
    }
    while ((lost = file.value()->lost()) == 0) {
      std::this_thread::yield();
    }
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_TRUE(file.value()->put(event(7777)));
  }
  ::signal(SIGXFSZ, old);
  // The file's thread may have taken them in several batches, so nothing is said of which are there.
  std::uint64_t told = 0;
  std::set<int> numbers;
  for (const json& one : parsed()) {
    told += one.value("events", std::uint64_t{0});
    numbers.insert(one.value("n", -1));
  }
  EXPECT_GE(told, lost);
  EXPECT_EQ(numbers.size() - 2, 1000 - told) << "-1 and 7777, and what was not lost";
  EXPECT_TRUE(numbers.contains(7777));
  EXPECT_EQ(log_.size(), 1u);
}

TEST_F(TraceFileTest, CanBeReadWhileItIsWritten) {
  auto file = TraceFile::create(path_, event(-1), options());
  ASSERT_TRUE(file);
  std::size_t seen = 0;
  int looks = 0;
  for (int i = 0; seen < 300; ++i) {  // each look reads all
    ASSERT_LT(looks, 1000000);
    file.value()->put(event(i));
    const json all = json::parse(text(), nullptr, false);
    ++looks;
    ASSERT_FALSE(all.is_discarded()) << "look " << looks;
    ASSERT_GE(all.size(), seen);
    seen = all.size();
  }
  file.value().reset();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "the hidden copy is gone";
}

TEST_F(TraceFileTest, AKilledProcesssHiddenCopyIsTakenAway) {
  TraceFile::Options marked = options();
  marked.mark = R"("ours")";
  std::ofstream(folder_ / ".trace.json.other") << "[\n{\"ours\":1}\n]\n";
  { ASSERT_TRUE(TraceFile::create(path_, event(0), marked)); }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(TraceFileTest, IsValidAfterAProcessWasKilled) {
  TraceFile::Options marked = options();
  marked.mark = event(-1);
  for (int round = 0; round < 4; ++round) {
    std::filesystem::remove(path_);
    const pid_t child = ::fork();
    if (child == 0) {
      auto file = TraceFile::create(path_, event(-1), marked);
      for (int i = 0; file; ++i) {
        file.value()->put(event(i));
      }
      ::_exit(1);
    }
    while (!std::filesystem::exists(path_) ||
           std::filesystem::file_size(path_) < static_cast<std::size_t>(1000 + 60000 * round)) {
      std::this_thread::yield();
    }
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_GT(parsed().size(), 1u);
  }
}

}  // namespace
}  // namespace ronde::observe
