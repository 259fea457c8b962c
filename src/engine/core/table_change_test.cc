// Another table of thresholds while work is under way: every rank changes at the same place of the log, so values are
// right and nobody waits for ever, in whole worlds moved by hand.
#include <gtest/gtest.h>

#include <map>

#include "support/effort.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using test::LocalWorld;

/// Rows that differ in every way: what is one shot, staged or in how many chunks under one is not under the next.
const Thresholds kRows[] = {
    {.inlined = 56, .one_shot = 0, .staged = 0, .chunk = 128},
    {.inlined = 0, .one_shot = std::uint64_t{1} << 40, .staged = 1 << 20, .chunk = 4096},
    {.inlined = 16, .one_shot = 2000, .staged = 20000, .chunk = 1024, .stream = 0},
    {.inlined = 56, .one_shot = 500, .staged = 1000, .chunk = 65536},
};

const std::vector<std::pair<std::string, std::size_t>> kNames = {{"a", 1},    {"b", 10},    {"c", 100},  {"d", 600},
                                                                 {"e", 4000}, {"f", 30000}, {"g", 70001}};

struct Call {
  int rank = 0;
  TicketPtr ticket;
  std::vector<float> values;
  float sum = 0;
};

class TableChange : public testing::TestWithParam<int> {
 protected:
  explicit TableChange() : world_(GetParam()) {}

  void step_some(int most) {
    for (int i = static_cast<int>(random_() % static_cast<unsigned>(most)); i > 0; --i) {
      world_.step(static_cast<int>(random_() % static_cast<unsigned>(world_.size())));
    }
  }
  void submit(int rank, const std::string& name, std::size_t elements) {
    auto call = std::make_unique<Call>();
    call->rank = rank;
    call->values.assign(elements, static_cast<float>(rank + step_));
    const int ranks = world_.size();
    call->sum = static_cast<float>(ranks * (ranks - 1) / 2 + ranks * step_);
    call->ticket = world_.submit(rank, test::allreduce(name, call->values));
    calls_.push_back(std::move(call));
  }
  /// Each rank submits the names in an order of its own, interleaved with moves.
  void submit_all(const std::vector<std::pair<std::string, std::size_t>>& names) {
    for (int rank = 0; rank < world_.size(); ++rank) {
      auto order = names;
      std::shuffle(order.begin(), order.end(), random_);
      for (const auto& [name, elements] : order) {
        submit(rank, name, elements);
        step_some(4);
      }
    }
  }
  void propose() { world_.engine(0).propose_table(kRows[random_() % std::size(kRows)]); }
  bool all_done() const {
    return std::all_of(calls_.begin(), calls_.end(), [](const auto& call) { return call->ticket->is_done(); });
  }
  void finish() {
    world_.settle(random_);
    for (int i = 0; i < 20 && !all_done(); ++i) {
      for (const auto& call : calls_) {
        world_.engine(call->rank).want(*call->ticket);
      }
      world_.clock().advance(2 * kMillisecond);
      world_.settle(random_);
    }
    for (const auto& call : calls_) {
      ASSERT_TRUE(call->ticket->is_done()) << call->ticket->name() << " of rank " << call->rank << " in " << step_;
      ASSERT_TRUE(call->ticket->status()) << call->ticket->status().message();
      ASSERT_EQ(std::count(call->values.begin(), call->values.end(), call->sum),
                static_cast<std::ptrdiff_t>(call->values.size()))
          << call->ticket->name() << " of rank " << call->rank << " in " << step_;
      world_.wait(call->rank, *call->ticket);
    }
    calls_.clear();
    ++step_;
  }
  void expect_one_row() {
    for (int rank = 1; rank < world_.size(); ++rank) {
      EXPECT_EQ(world_.engine(rank).thresholds(), world_.engine(0).thresholds()) << "rank " << rank;
    }
  }
  std::uint64_t instances(int rank) { return world_.engine(rank).replay_counters().instances; }

  std::mt19937 random_{static_cast<unsigned>(GetParam())};
  LocalWorld world_;
  std::vector<std::unique_ptr<Call>> calls_;
  int step_ = 1;
};
INSTANTIATE_TEST_SUITE_P(Sizes, TableChange, testing::Values(2, 3, 5));

TEST_P(TableChange, IsInForceOnceItIsRead) {
  const Thresholds before = world_.engine(1).thresholds();
  world_.engine(0).propose_table(kRows[2]);
  EXPECT_EQ(world_.engine(0).thresholds(), before);
  EXPECT_TRUE(world_.engine(0).has_input()) << "who drives must look";
  world_.settle();
  EXPECT_EQ(world_.engine(0).thresholds(), kRows[2]);
  expect_one_row();
}

TEST_P(TableChange, OnlyTheCoordinatorHasASay) {
  const Thresholds before = world_.engine(0).thresholds();
  world_.engine(1).propose_table(kRows[2]);
  world_.settle();
  EXPECT_EQ(world_.engine(1).thresholds(), before);
  expect_one_row();
}

// What was agreed before runs by the old row although it runs later: the plans are queued when the entry is read.
TEST_P(TableChange, BetweenPlansThatAreQueued) {
  for (int round = 0; round < 30; ++round) {
    submit_all({{"x" + std::to_string(round), 30000}, {"y" + std::to_string(round), 5000}});
    step_some(10);
    propose();
    submit_all({{"z" + std::to_string(round), 30000}, {"u" + std::to_string(round), 40}});
    propose();
    ASSERT_NO_FATAL_FAILURE(finish());
    expect_one_row();
  }
}

// Negotiation and replay in a random mix, breaks too: names that come now and then, another shape now and then.
TEST_P(TableChange, InTheMiddleOfNegotiationAndReplay) {
  std::uint64_t replayed = 0;
  for (int round = 0; round < effort(200); ++round) {
    auto names = kNames;
    if (random_() % 4 == 0) {
      names.push_back({"now and then", 50});
    }
    if (round % 10 == 9) {
      names[4].second += 1;  // a break, for its place has another shape
    }
    names.push_back({"once " + std::to_string(round), 1000});
    names.push_back({"late " + std::to_string(round / 8), 30000});  // comes into force in the middle of an epoch
    const int slow = static_cast<int>(random_() % static_cast<unsigned>(world_.size()));
    world_.pause(slow);  // it reads the log later than the others
    if (random_() % 3 == 0) {
      propose();
    }
    submit_all(names);
    step_some(40);
    if (random_() % 3 == 0) {
      propose();
    }
    step_some(40);
    world_.resume(slow);
    step_some(40);
    ASSERT_NO_FATAL_FAILURE(finish());
    expect_one_row();
    replayed = instances(0);
  }
  EXPECT_GT(replayed, 0u);
  EXPECT_GT(world_.engine(0).replay_counters().breaks, 0u);
  for (int rank = 0; rank < world_.size(); ++rank) {
    EXPECT_EQ(instances(rank), replayed) << "every rank has finished the same instances";
    EXPECT_EQ(world_.engine(rank).replay_counters().breaks, world_.engine(0).replay_counters().breaks);
  }
}

// A bucket keeps what it was prepared under and the lane what was in force at INSTALL: a change in the middle of an
// epoch, with ranks apart in the log, leaves both alone; after a break all of them follow.
TEST_P(TableChange, DuringAnEpochAndTheBreakThatEndsIt) {
  for (int round = 0; round < 6; ++round) {
    submit_all(kNames);
    ASSERT_NO_FATAL_FAILURE(finish());
  }
  ASSERT_GT(instances(0), 0u);
  for (int round = 0; round < 20; ++round) {
    world_.engine(0).propose_table(kRows[round % 4]);
    while (world_.step(0)) {  // the coordinator has read it, the others have not
    }
    submit_all(kNames);
    ASSERT_NO_FATAL_FAILURE(finish());
  }
  EXPECT_EQ(world_.engine(0).replay_counters().breaks, 0u) << "a change breaks nothing";
  // A break: rank 1 has another shape. While it lasts another table comes; nobody reads it before the end.
  auto other = kNames;
  other[3].second += 1;
  for (int rank = 0; rank < world_.size(); ++rank) {
    for (const auto& [name, elements] : other) {
      submit(rank, name, elements);
    }
    world_.engine(0).propose_table(kRows[1]);
    world_.step(0);
  }
  ASSERT_NO_FATAL_FAILURE(finish());
  EXPECT_GT(world_.engine(0).replay_counters().breaks, 0u);
  EXPECT_EQ(world_.engine(0).thresholds(), kRows[1]);
  expect_one_row();
  for (int round = 0; round < 10; ++round) {
    submit_all(other);
    ASSERT_NO_FATAL_FAILURE(finish());
  }
}

TEST_P(TableChange, IsForgottenByWhoLeavesOrHasFailed) {
  world_.engine(0).propose_table(kRows[1]);
  for (int rank = 0; rank < world_.size(); ++rank) {
    world_.engine(rank).begin_leave();
  }
  world_.engine(0).propose_table(kRows[2]);
  world_.settle();
  for (int rank = 0; rank < world_.size(); ++rank) {
    EXPECT_EQ(world_.engine(rank).leaving(), Leaving::over);
  }
  expect_one_row();
}

TEST(TableChangeDeath, AProposalAfterADeathIsDropped) {
  LocalWorld world(3);
  const Thresholds before = world.engine(0).thresholds();
  world.kill(2);
  world.engine(0).propose_table(kRows[1]);
  world.settle();
  world.engine(0).propose_table(kRows[2]);
  world.settle();
  EXPECT_EQ(world.engine(0).thresholds(), before);
}

}  // namespace
}  // namespace ronde::engine
