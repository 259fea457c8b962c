#include "plan/timeline_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ronde::plan {
namespace {

using testing::HasSubstr;

std::string row(int id, const std::string& name) {
  return R"({"name":"process_name","ph":"M","pid":)" + std::to_string(id) + R"(,"args":{"name":")" + name +
         R"(","rank":1,"size":4}})";
}

std::string replayed(int id, double at_us, double for_us, int bytes) {
  return R"({"name":"ALLREDUCE","ph":"X","pid":)" + std::to_string(id) + R"(,"ts":)" + std::to_string(at_us) +
         R"(,"dur":)" + std::to_string(for_us) + R"(,"args":{"replayed":1,"waited_us":0,"tensors":2,"bytes":)" +
         std::to_string(bytes) + "}}";
}

std::string timeline(const std::vector<std::string>& events) {
  std::string text = "[\n";
  for (const std::string& each : events) {
    text += (text.size() > 2 ? ",\n" : "") + each;
  }
  return text + "\n]";
}

/// Steps of 1000 us: the first bucket is full at 0, the second at 300, which lasts until 500. So 200 us are waited.
std::vector<std::string> steps(int count) {
  std::vector<std::string> events{row(0, "rank 1 of 4"), row(1, "late"), row(2, "early")};
  for (int i = 0; i < count; ++i) {
    events.push_back(replayed(2, 1000 * i, 100, 4000));
    events.push_back(replayed(1, 1000 * i + 300, 200, 8000));
  }
  return events;
}

TEST(TimelineStep, IsFromOneStepToTheNextWithoutWaiting) {
  Result<Step> step = parse_timeline(timeline(steps(5)), "trace.json");
  ASSERT_TRUE(step) << step.status().message();
  EXPECT_EQ(step->ranks, 4);
  EXPECT_NEAR(step->compute_ns, 800e3, 1);
  ASSERT_EQ(step->buckets.size(), 2);
  EXPECT_EQ(step->buckets[0].name, "early");
  EXPECT_EQ(step->buckets[0].bytes, 4000);
  EXPECT_EQ(step->buckets[0].tensors, 2);
  EXPECT_NEAR(step->buckets[0].ready_ns, 500e3, 1);
  EXPECT_EQ(step->buckets[1].bytes, 8000);
  EXPECT_NEAR(step->buckets[1].ready_ns, 800e3, 1);
}

TEST(TimelineStep, HalfAStepAtTheEndIsLeftOut) {
  std::vector<std::string> events = steps(4);
  events.push_back(replayed(2, 4000, 100, 4000));
  Result<Step> step = parse_timeline(timeline(events), "trace.json");
  ASSERT_TRUE(step) << step.status().message();
  EXPECT_NEAR(step->compute_ns, 800e3, 1);
}

TEST(TimelineStep, OneBucketThatWasReplayedLaterIsCountedFromTheEnd) {
  std::vector<std::string> events = steps(5);
  events.erase(events.begin() + 3);  // the first of the bucket "early"
  Result<Step> step = parse_timeline(timeline(events), "trace.json");
  ASSERT_TRUE(step) << step.status().message();
  EXPECT_NEAR(step->compute_ns, 800e3, 1);
  EXPECT_EQ(step->buckets.size(), 2);
}

TEST(TimelineStep, ATensorThatComesNowAndThenIsNotOfTheStep) {
  std::vector<std::string> events = steps(8);
  events.push_back(row(3, "metric"));
  events.push_back(replayed(3, 2600, 50, 4));
  Result<Step> step = parse_timeline(timeline(events), "trace.json");
  ASSERT_TRUE(step) << step.status().message();
  EXPECT_EQ(step->buckets.size(), 2);
}

TEST(TimelineStep, OneSlowStepIsNotTheMedian) {
  std::vector<std::string> events = steps(5);
  events.push_back(replayed(2, 9000, 100, 4000));
  events.push_back(replayed(1, 9300, 200, 8000));
  Result<Step> step = parse_timeline(timeline(events), "trace.json");
  ASSERT_TRUE(step) << step.status().message();
  EXPECT_NEAR(step->compute_ns, 800e3, 1);
}

TEST(TimelineStep, WhatIsNoTimelineIsNamed) {
  const auto said = [](const std::string& text) { return parse_timeline(text, "x.json").status().message(); };
  EXPECT_THAT(said(""), HasSubstr("'x.json' is no timeline: expected a JSON array"));
  EXPECT_THAT(said("{}"), HasSubstr("'x.json' is no timeline"));
  EXPECT_THAT(said(R"([{"name":"thread"}])"), HasSubstr("does not say \"rank\" and \"size\""));
  EXPECT_THAT(said(timeline({row(0, "rank 1 of 4"), "3"})), HasSubstr("found 3 in place of an event"));
  EXPECT_THAT(said(timeline(steps(2))),
              HasSubstr("has 2 whole steps in a row in which the same all-reduces were replayed, and at "
                        "least 3"));
  EXPECT_THAT(said(timeline({row(0, "rank 1 of 4")})), HasSubstr("has 0 whole steps"));
  EXPECT_THAT(said(timeline({row(0, "rank 1 of 4"), R"({"name":"ALLREDUCE","pid":"one"})"})),
              HasSubstr("of another type"));
  std::vector<std::string> idle{row(0, "rank 1 of 4"), row(1, "only")};
  for (int i = 0; i < 4; ++i) {
    idle.push_back(replayed(1, 100 * i, 100, 4000));
  }
  EXPECT_THAT(said(timeline(idle)), HasSubstr("compute nothing"));
  EXPECT_THAT(read_timeline("no-such.json").status().message(), HasSubstr("'no-such.json' cannot be read"));
}

}  // namespace
}  // namespace ronde::plan
