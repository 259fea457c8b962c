// A rank that does not come: the log says so after RONDE_STALL_S, again and again, and RONDE_TIMEOUT_S is the end of
// it. The same whether the tensor is agreed by messages or replayed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/core/settings.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using test::LocalWorld;
using testing::HasSubstr;

/// Horovod's two variables, for the duration of a test.
struct HorovodsVariables {
  HorovodsVariables() {
    ::setenv("HOROVOD_STALL_CHECK_TIME_SECONDS", "10", 1);
    ::setenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "35", 1);
  }
  ~HorovodsVariables() {
    ::unsetenv("HOROVOD_STALL_CHECK_TIME_SECONDS");
    ::unsetenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS");
  }
};

Settings settings_with_horovods_variables() {
  const HorovodsVariables set;
  const Result<Settings> settings = settings_from_environment();
  EXPECT_TRUE(settings) << settings.status().message();
  return settings.value();
}

/// How many steps come before: none, or so many that the tensor is replayed.
class Stalls : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(StepsBefore, Stalls, testing::Values(0, 6));

// Where it was replayed, agreement, which ends it, hears of it only then.
TEST_P(Stalls, TheWholeTimeThatWasWaitedIsTold) {
  LocalWorld world(2);
  std::vector<std::vector<float>> values(2, std::vector<float>(4, 1));
  const auto submit = [&](int rank) {
    return world.submit(
        rank, test::with_timeout(test::allreduce("x", values[static_cast<std::size_t>(rank)]), 300 * kMillisecond));
  };
  for (int step = 0; step < GetParam(); ++step) {
    const std::vector<TicketPtr> tickets = {submit(0), submit(1)};
    world.settle();
    world.wait(0, *tickets[0]);
    world.wait(1, *tickets[1]);
  }
  const TicketPtr ticket = submit(0);
  for (int i = 0; i < 20 && !ticket->is_done(); ++i) {
    world.settle();
    world.clock().advance(100 * kMillisecond);
  }
  ASSERT_TRUE(ticket->is_done());
  EXPECT_EQ(ticket->status().code(), Code::timed_out);
  EXPECT_THAT(ticket->status().message(), HasSubstr("after 0.3 s"));
}

TEST_P(Stalls, AreReportedAndThenEndWithTheSentenceThatNamesTheRank) {
  const Settings settings = settings_with_horovods_variables();
  EXPECT_EQ(settings.stall, 10 * kSecond);
  EXPECT_EQ(settings.timeout, 35 * kSecond);
  LocalWorld world(3, settings);
  std::vector<std::vector<float>> values(3, std::vector<float>(4, 1));
  const auto submit = [&](int rank) {
    return world.submit(
        rank, test::with_timeout(test::allreduce("x", values[static_cast<std::size_t>(rank)]), settings.timeout));
  };
  for (int step = 0; step < GetParam(); ++step) {
    const std::vector<TicketPtr> tickets = {submit(0), submit(1), submit(2)};
    world.settle();
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(tickets[static_cast<std::size_t>(rank)]->is_done());
      world.wait(rank, *tickets[static_cast<std::size_t>(rank)]);
    }
  }
  ASSERT_EQ(world.engine(0).replay_counters().instances > 0, GetParam() > 0);
  const std::vector<TicketPtr> tickets = {submit(0), submit(2)};
  std::vector<std::string> lines;
  Nanoseconds waited = 0;
  for (; waited < 60 * kSecond && !tickets[0]->is_done(); waited += kSecond / 4) {
    world.settle();
    world.clock().advance(kSecond / 4);
    for (std::string& line : world.log().take()) {
      lines.push_back(std::move(line));
    }
  }
  ASSERT_GE(lines.size(), 2u) << "said once and again";
  for (const std::string& line : lines) {
    EXPECT_THAT(line, HasSubstr("named 'x' waits for rank 1; ranks 0, 2 have submitted it"));
  }
  EXPECT_GE(waited, 35 * kSecond);
  EXPECT_LE(waited, 42 * kSecond) << "half a stall's time is for the break of what is replayed";
  world.settle();
  for (const TicketPtr& ticket : tickets) {
    ASSERT_TRUE(ticket->is_done());
    EXPECT_EQ(ticket->status().code(), Code::timed_out);
    EXPECT_EQ(ticket->status().failed_rank(), 1);
    EXPECT_THAT(ticket->status().message(), HasSubstr("named 'x': rank 1 did not submit it"));
  }
}

}  // namespace
}  // namespace ronde::engine
