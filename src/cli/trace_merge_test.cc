#include "cli/trace_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ronde::cli {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class TraceMergeTest : public testing::Test {
 protected:
  TraceMergeTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "ronde_merge_XXXXXX").string();
    folder_ = ::mkdtemp(folder.data());
  }
  ~TraceMergeTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  /// A rank's timeline: the tensor x from 1 to 3 microseconds after its start. `more` stands behind that.
  std::string trace(int rank, std::int64_t monotonic_ns, std::int64_t epoch_us, const std::string& boot,
                    const std::string& more = "", const json& job_clock = json::object()) const {
    json owner = {{"rank", rank},
                  {"start_monotonic_ns", monotonic_ns},
                  {"boot_id", boot},
                  {"host", "h"},
                  {"start_time_since_epoch_in_micros", epoch_us}};
    owner.update(job_clock);
    return write("t" + std::to_string(rank),
                 "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":" + owner.dump() +
                     "},\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"x\"}},\n"
                     "{\"name\":\"ALLREDUCE\",\"ph\":\"B\",\"pid\":1,\"ts\":1.000},\n"
                     "{\"ph\":\"E\",\"pid\":1,\"ts\":3.000}" +
                     more + "\n]\n");
  }
  static json job_clock(const std::string& boot, std::int64_t behind_ns, std::int64_t within_ns) {
    return {{"job_clock_boot_id", boot}, {"behind_job_clock_ns", behind_ns}, {"job_clock_within_ns", within_ns}};
  }
  /// Of each rank when x began.
  static std::vector<double> begins(const MergedTrace& merged, int ranks) {
    std::vector<double> all(static_cast<std::size_t>(ranks), -1);
    for (const json& event : json::parse(merged.text)) {
      if (event["ph"] == "B") {
        EXPECT_EQ(event["tid"], 1);
        all[event["pid"].get<std::size_t>()] = event["ts"];
      }
    }
    return all;
  }

  std::filesystem::path folder_;
};

TEST_F(TraceMergeTest, RanksOfOneMachineGoByItsMonotonicClock) {
  auto merged = merge_traces({trace(1, 9'000'500, 77, "boot"), trace(0, 9'002'000, 5, "boot")});
  ASSERT_TRUE(merged) << merged.status().message();
  EXPECT_THAT(begins(merged.value(), 2), ElementsAre(2.5, 1.0)) << "from the earliest start";
  EXPECT_EQ(merged->ranks, 2u);
  EXPECT_EQ(merged->events, 4u);
  EXPECT_TRUE(merged->notes.empty());
}

TEST_F(TraceMergeTest, RanksOfSeveralMachinesGoByTheTimeOfDay) {
  auto merged = merge_traces({trace(0, 5, 1000, "one"), trace(1, 9'000'000, 1040, "other"), trace(2, 2005, 0, "one")});
  ASSERT_TRUE(merged);
  EXPECT_THAT(begins(merged.value(), 3), ElementsAre(1.0, 41.0, 3.0));
  EXPECT_THAT(merged->notes, ElementsAre(HasSubstr("aligned by the time of day")));
}

TEST_F(TraceMergeTest, HostsGoByTheClocksThatTheyHaveCompared) {
  auto merged = merge_traces({trace(0, 1'000'000, 5, "one", "", job_clock("one", 0, 0)),
                              trace(1, 9'000'000, 1, "other", "", job_clock("one", -7'900'000, 90'000)),
                              trace(2, 9'002'000, 1, "other", "", job_clock("one", -7'990'000, 20'400)),
                              trace(3, 500'000, 1, "third", "", job_clock("one", 499'000, 5'000))});
  ASSERT_TRUE(merged);
  EXPECT_THAT(begins(merged.value(), 4), ElementsAre(2.0, 12.0, 14.0, 1.0)) << "by the best that a host has";
  EXPECT_THAT(merged->notes, ElementsAre(HasSubstr("the clocks of 3 hosts were compared")));
  EXPECT_THAT(merged->notes.front(), HasSubstr("within 0.021 ms"));
}

TEST_F(TraceMergeTest, ClocksOfDifferentJobsSayNothingOfEachOther) {
  const std::string first = trace(0, 0, 1000, "one", "", job_clock("one", 0, 0));
  for (const json& other : {job_clock("another", 0, 0), json::object(), json{{"job_clock_boot_id", "one"}},
                            json{{"job_clock_boot_id", 1}, {"behind_job_clock_ns", 0}, {"job_clock_within_ns", 0}}}) {
    auto merged = merge_traces({first, trace(1, 0, 1040, "other", "", other)});
    ASSERT_TRUE(merged);
    EXPECT_THAT(begins(merged.value(), 2), ElementsAre(1.0, 41.0));
    EXPECT_THAT(merged->notes, ElementsAre(HasSubstr("aligned by the time of day")));
  }
}

TEST_F(TraceMergeTest, EachRankIsAProcessAndEachTensorAThreadOfIt) {
  auto merged = merge_traces({trace(0, 0, 0, "b"), trace(1, 0, 0, "b")});
  ASSERT_TRUE(merged);
  std::vector<std::string> names;
  double last = 0;
  for (const json& event : json::parse(merged->text)) {
    if (event["ph"] == "M" && event["args"].contains("name")) {
      names.push_back(event["args"]["name"]);
    } else if (event["ph"] != "M") {
      EXPECT_GE(event["ts"].get<double>(), last);
      last = event["ts"];
    }
  }
  EXPECT_THAT(names, ElementsAre("rank 0 (h)", "marks", "x", "rank 1 (h)", "marks", "x"));
}

TEST_F(TraceMergeTest, SaysWhatIsMissing) {
  auto merged =
      merge_traces({trace(0, 0, 0, "b", ",\n{\"name\":\"DROPPED\",\"ph\":\"M\",\"pid\":0,\"args\":{\"events\":7}}"),
                    trace(1, 0, 0, "b", ",\n{\"name\":\"NEGOTIATE_ALLREDUCE\",\"ph\":\"B\",\"pid\":1,\"ts\":8}")});
  ASSERT_TRUE(merged);
  EXPECT_THAT(merged->notes, ElementsAre(HasSubstr("rank 0: 7 events dropped"),
                                         "rank 1: ended in the middle of NEGOTIATE_ALLREDUCE of 'x'"));
  EXPECT_THAT(merged->text, HasSubstr("7 events dropped"));
}

TEST_F(TraceMergeTest, AFileThatWasCutIsMergedUpToThere) {
  const std::string path = trace(0, 0, 0, "b", ",\n{\"name\":\"ALLREDUCE\",\"ph\":\"B\",\"pid\":1,\"ts\":5}");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 10);
  auto merged = merge_traces({path});
  ASSERT_TRUE(merged) << merged.status().message();
  EXPECT_EQ(merged->events, 2u);
  EXPECT_THAT(merged->notes, ElementsAre(HasSubstr("ends in the middle of an event")));
}

TEST_F(TraceMergeTest, WhatIsNoTimelineIsNamed) {
  const auto error = [](const std::vector<std::string>& paths) {
    auto merged = merge_traces(paths);
    EXPECT_EQ(merged.status().code(), Code::invalid_argument);
    return merged.status().message();
  };
  EXPECT_THAT(error({"/nowhere/t"}), HasSubstr("'/nowhere/t' cannot be read"));
  EXPECT_THAT(error({folder_.string()}), HasSubstr(folder_.string()));
  EXPECT_THAT(error({write("a", "")}), HasSubstr("is no timeline"));
  EXPECT_THAT(error({write("b", "{}")}), HasSubstr("is no timeline"));
  EXPECT_THAT(error({write("c", "[1, 2]")}), HasSubstr("is no timeline"));
  EXPECT_THAT(error({write("d", R"([{"args": 3}])")}), HasSubstr("does not say \"rank\""));
  EXPECT_THAT(error({trace(0, 0, 0, "b", ",\n{\"ph\":\"B\"}")}), HasSubstr("found the event"));
  EXPECT_THAT(error({trace(0, 0, 0, "b"), trace(0, 0, 0, "b")}), HasSubstr("are both of rank 0"));
}

}  // namespace
}  // namespace ronde::cli
