// What a timeline says of whole worlds, moved by hand with a fake clock.
#include "observe/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "support/local_world.h"

namespace ronde::engine {
namespace {

using nlohmann::json;
using test::LocalWorld;
using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

/// A world in which every rank writes a timeline.
class Traced {
 public:
  explicit Traced(int size, Settings settings = {}, observe::TraceFile::Options options = {}) : world(size, settings) {
    std::string folder = (std::filesystem::temp_directory_path() / "ronde_timeline_XXXXXX").string();
    folder_ = ::mkdtemp(folder.data());
    for (int rank = 0; rank < size; ++rank) {
      auto started = observe::Timeline::start(observe::timeline_path((folder_ / "t.json").string(), rank),
                                              {rank, size, true}, world.clock().now(), options);
      EXPECT_TRUE(started) << started.status().message();
      timelines_.push_back(std::move(started).value());
      world.engine(rank).observe(timelines_.back().get());
    }
  }
  ~Traced() {
    for (int rank = 0; rank < world.size(); ++rank) {
      world.engine(rank).observe(nullptr);
    }
    timelines_.clear();
    std::filesystem::remove_all(folder_);
  }

  TicketPtr submit(int rank, const std::string& name) {
    world.clock().advance(kMicrosecond);
    return world.submit(rank, test::allreduce(name, values_[{rank, name}] = std::vector<float>(3, 1)));
  }
  void step(const std::vector<std::string>& names) {
    std::vector<std::pair<int, TicketPtr>> tickets;
    for (int rank = 0; rank < world.size(); ++rank) {
      for (const std::string& name : names) {
        tickets.emplace_back(rank, submit(rank, name));
      }
    }
    finish(tickets);
  }
  void finish(const std::vector<std::pair<int, TicketPtr>>& tickets) {
    world.settle();
    for (const auto& [rank, ticket] : tickets) {
      ASSERT_TRUE(ticket->is_done());
      world.wait(rank, *ticket);
    }
  }
  /// Ends the rank's file; its events.
  std::vector<json> events(int rank) {
    auto& timeline = timelines_[static_cast<std::size_t>(rank)];
    const std::string path = timeline->path();
    world.engine(rank).observe(nullptr);
    timeline->stop(world.clock().now());
    timeline.reset();
    std::ifstream file(path);
    return json::parse(file).get<std::vector<json>>();
  }

  LocalWorld world;

 private:
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<observe::Timeline>> timelines_;
  std::map<std::pair<int, std::string>, std::vector<float>> values_;
};

/// What happens in the row of this name, in order: "B name", "E", "X name". Fails if an end has no beginning, or the
/// other way round, or time runs backwards.
std::vector<std::string> row(const std::vector<json>& events, const std::string& name) {
  std::vector<std::string> text;
  int pid = -1;
  int depth = 0;
  double last = 0;
  for (const json& event : events) {
    const std::string kind = event["ph"];
    if (kind == "M") {
      pid = event["args"].value("name", "") == name ? event["pid"].get<int>() : pid;
    } else if (event["pid"] == pid) {
      depth += kind == "B" ? 1 : kind == "E" ? -1 : 0;
      EXPECT_GE(depth, 0) << name;
      EXPECT_GE(event["ts"].get<double>(), last) << name << event;
      last = event["ts"];
      text.push_back(kind == "E" ? kind : kind + " " + event["name"].get<std::string>());
    }
  }
  EXPECT_EQ(depth, 0) << name << " is left open";
  return text;
}

std::vector<json> named(const std::vector<json>& events, const std::string& name) {
  std::vector<json> found;
  for (const json& event : events) {
    if (event.value("name", "") == name) {
      found.push_back(event);
    }
  }
  return found;
}

TEST(Timeline, ARequestIsNegotiatedThenDone) {
  Traced traced(2);
  const TicketPtr late = traced.submit(1, "x");
  traced.world.settle();
  traced.world.clock().advance(kMillisecond);
  traced.finish({{0, traced.submit(0, "x")}, {1, late}});
  const auto coordinator = traced.events(0);
  EXPECT_THAT(row(coordinator, "x"), ElementsAre("B NEGOTIATE_ALLREDUCE", "X 1", "X 0", "E", "B ALLREDUCE", "B QUEUE",
                                                 "E", "B NATIVE_ALLREDUCE", "E", "E"));
  EXPECT_GE(named(coordinator, "0")[0]["ts"].get<double>() - named(coordinator, "1")[0]["ts"].get<double>(), 1000)
      << "microseconds by which rank 0 was late";
  const json end = coordinator.back();
  EXPECT_EQ(end["args"]["dtype"], "float32");
  EXPECT_EQ(end["args"]["shape"], "[3]");
  EXPECT_EQ(named(coordinator, "CYCLE_START").size(), 1u);
  const json first = coordinator.front();
  EXPECT_EQ(first["args"]["name"], "rank 0 of 2");
  EXPECT_GT(first["args"]["start_time_since_epoch_in_micros"].get<std::int64_t>(), 1'000'000'000'000'000);
  EXPECT_THAT(row(traced.events(1), "x"),
              ElementsAre("B NEGOTIATE_ALLREDUCE", "E", "B ALLREDUCE", "B QUEUE", "E", "B NATIVE_ALLREDUCE", "E", "E"));
}

TEST(Timeline, EveryKindHasItsName) {
  Traced traced(2);
  std::vector<std::vector<float>> values(8, std::vector<float>(2, 1));
  std::vector<std::pair<int, TicketPtr>> tickets;
  for (int rank : {0, 1}) {
    const auto submit = [&](Request request) {
      tickets.emplace_back(rank, traced.world.submit(rank, std::move(request)));
    };
    submit(test::broadcast("b", values[static_cast<std::size_t>(rank)], 0));
    submit(test::allgather("g", values[static_cast<std::size_t>(2 + rank)]));
    submit(test::barrier("w"));
    submit(test::allreduce("a", values[static_cast<std::size_t>(4 + rank)], ReduceOp::adasum));
  }
  traced.finish(tickets);
  const auto events = traced.events(1);
  EXPECT_THAT(row(events, "b"), Contains("B NEGOTIATE_BROADCAST"));
  EXPECT_THAT(row(events, "g"), Contains("B NATIVE_ALLGATHER"));
  EXPECT_THAT(row(events, "w"), Contains("B BARRIER"));
  EXPECT_THAT(row(events, "a"), Contains("B ADASUM"));
}

class TimelineRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TimelineRanks, testing::Values(2, 3, 5));

TEST_P(TimelineRanks, ReplayIsOneEventForEachInstance) {
  Traced traced(GetParam());
  for (int i = 0; i < 10; ++i) {
    ASSERT_NO_FATAL_FAILURE(traced.step({"alone"}));
  }
  const std::uint64_t instances = traced.world.engine(1).replay_counters().instances;
  ASSERT_GT(instances, 3u);
  const auto events = traced.events(1);
  std::vector<std::string> expected;
  for (std::uint64_t i = instances; i < 10; ++i) {
    for (const char* each :
         {"B NEGOTIATE_ALLREDUCE", "E", "B ALLREDUCE", "B QUEUE", "E", "B NATIVE_ALLREDUCE", "E", "E"}) {
      expected.emplace_back(each);
    }
  }
  expected.insert(expected.end(), instances, "X ALLREDUCE");
  EXPECT_THAT(row(events, "alone"), ElementsAreArray(expected));
  EXPECT_EQ(events.back()["args"]["replayed"], instances);
  EXPECT_EQ(events.back()["args"]["bytes"], 12);
}

TEST(Timeline, AReplayedBucketOfSeveralHasARowAndSaysHowLongItWaitedForPeers) {
  Traced traced(2);
  for (int i = 0; i < 8; ++i) {
    ASSERT_NO_FATAL_FAILURE(traced.step({"a", "b", "c"}));
  }
  const auto before = traced.world.engine(0).replay_counters().instances.load();
  std::vector<std::pair<int, TicketPtr>> tickets;
  for (int rank : {0, 1}) {
    for (const char* name : {"a", "b", "c"}) {
      tickets.emplace_back(rank, traced.submit(rank, name));
    }
    traced.world.step(rank);
    traced.world.clock().advance(500 * kMicrosecond);
  }
  traced.finish(tickets);
  ASSERT_EQ(traced.world.engine(0).replay_counters().instances, before + 1) << "all three in one bucket";
  const auto events = traced.events(0);
  const json last = events.back();
  EXPECT_EQ(last["name"], "ALLREDUCE");
  EXPECT_EQ(last["args"]["tensors"], 3);
  EXPECT_GE(last["args"]["waited_us"].get<double>(), 500);
  EXPECT_GE(last["dur"].get<double>(), last["args"]["waited_us"].get<double>());
  for (const char* name : {"a", "b", "c"}) {
    row(events, name);
  }
}

TEST(Timeline, WhatFailsEndsWithItsErrorAndWhatIsOpenAtTheEndIsClosed) {
  Traced traced(2);
  std::vector<float> two(2, 1);
  std::vector<float> three(3, 1);
  const TicketPtr a = traced.world.submit(0, test::allreduce("x", two));
  const TicketPtr b = traced.world.submit(1, test::allreduce("x", three));
  traced.submit(1, "alone");
  traced.world.settle();
  EXPECT_EQ(a->status().code(), Code::mismatch);
  const auto events = traced.events(1);
  EXPECT_THAT(row(events, "x"), ElementsAre("B NEGOTIATE_ALLREDUCE", "E"));
  EXPECT_THAT(row(events, "alone"), ElementsAre("B NEGOTIATE_ALLREDUCE", "E"));
  EXPECT_THAT(json(events).dump(),
              AllOf(HasSubstr(R"("error":"mismatch")"), HasSubstr(R"("ended_by":"stop_timeline")")));
}

TEST(Timeline, ItMayBeginAndEndAtAnyMoment) {
  Traced traced(2);
  traced.world.engine(0).observe(nullptr);  // and rank 0's begins in the middle of things
  const TicketPtr before = traced.submit(0, "x");
  traced.world.settle();
  const std::string path =
      (std::filesystem::temp_directory_path() / ("ronde_mid_" + std::to_string(::getpid()))).string();
  auto late = observe::Timeline::start(path, {0, 2, false}, traced.world.clock().now());
  ASSERT_TRUE(late);
  traced.world.engine(0).observe(late.value().get());
  traced.finish({{0, before}, {1, traced.submit(1, "x")}});
  traced.world.engine(0).observe(nullptr);
  late.value()->stop(traced.world.clock().now());
  late.value().reset();
  std::ifstream file(path);
  const auto events = json::parse(file).get<std::vector<json>>();
  std::filesystem::remove(path);
  EXPECT_THAT(row(events, "x"), Contains("B ALLREDUCE"));
  EXPECT_TRUE(named(events, "CYCLE_START").empty());
}

TEST(Timeline, ReplayThatBreaksAndComesBackLeavesNothingOpen) {
  Traced traced(2);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 8; ++i) {
      ASSERT_NO_FATAL_FAILURE(traced.step({"a", "b"}));
    }
    // Half a bucket, for which somebody waits: it breaks, and is agreed by messages.
    std::vector<std::pair<int, TicketPtr>> tickets = {{0, traced.submit(0, "a")}, {1, traced.submit(1, "a")}};
    for (int i = 0; i < 100 && !(tickets[0].second->is_done() && tickets[1].second->is_done()); ++i) {
      for (const auto& [rank, ticket] : tickets) {
        traced.world.engine(rank).want(*ticket);
      }
      traced.world.clock().advance(2 * kMillisecond);
      traced.world.settle();
    }
    ASSERT_NO_FATAL_FAILURE(traced.finish(tickets));
  }
  EXPECT_GT(traced.world.engine(0).replay_counters().breaks, 0u);
  for (int rank : {0, 1}) {
    const auto events = traced.events(rank);
    for (const json& event : named(events, "process_name")) {
      row(events, event["args"]["name"]);
    }
  }
}

TEST(Timeline, WhatIsDroppedIsDroppedInPairs) {
  observe::TraceFile::Options little;
  little.room = 2000;
  Traced traced(1, {}, little);
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) {
    names.push_back("t" + std::to_string(i));
  }
  ASSERT_NO_FATAL_FAILURE(traced.step(names));
  const auto events = traced.events(0);
  EXPECT_FALSE(named(events, "DROPPED").empty());
  for (const std::string& name : names) {
    row(events, name);
  }
  EXPECT_THAT(traced.world.log().take(), ElementsAre(HasSubstr("has gaps")));
}

TEST(Timeline, ANameMayHoldAnyBytes) {
  Traced traced(1);
  ASSERT_NO_FATAL_FAILURE(traced.step({std::string("\"\\\n\xff")}));
  EXPECT_EQ(named(traced.events(0), "process_name").back()["args"]["name"], "\"\\\n\xef\xbf\xbd");
}

}  // namespace
}  // namespace ronde::engine
