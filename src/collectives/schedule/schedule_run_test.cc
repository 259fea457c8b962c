#include "collectives/schedule/schedule_run.h"

#include <gtest/gtest.h>

#include "collectives/schedule/exchange_schedule.h"
#include "transport/loopback/links.h"

namespace ronde::collectives {
namespace {

constexpr std::uint32_t kCollective = 7;

/// Ranks that add up `count` floats each, in one turn.
class ScheduleRunTest : public testing::Test {
 protected:
  void make(int ranks, std::size_t count, std::size_t room) {
    net_ = std::make_unique<transport::LoopbackNet>(ranks, room);
    for (int rank = 0; rank < ranks; ++rank) {
      mailboxes_.push_back(std::make_unique<transport::Mailbox>(&net_->transport(rank), rank, ranks));
      values_.emplace_back(count, static_cast<float>(rank + 1));
      results_.emplace_back(count, -1.0f);
      runs_.push_back(run_of(rank, ranks, count));
    }
  }
  std::unique_ptr<ScheduleRun> run_of(int rank, int ranks, std::size_t count) {
    const auto index = static_cast<std::size_t>(rank);
    Exchange exchange;
    exchange.rank = rank;
    exchange.longest = count * sizeof(float);
    exchange.outgoing.assign(static_cast<std::size_t>(ranks), exchange.longest);
    exchange.incoming = exchange.outgoing;
    exchange.chunk = 128;
    exchange.one_list = exchange.reduces = exchange.tells_all = true;
    for (int each = 0; each < ranks; ++each) {
      exchange.inputs.push_back(each);
    }
    GatherList list;
    list.append(values_[index].data(), results_[index].data(), exchange.longest);
    return std::make_unique<ScheduleRun>(*mailboxes_[index], exchange_schedule(exchange), std::vector<GatherList>{list},
                                         std::vector<Combination>{{}});
  }
  void begin(std::size_t rank, std::uint64_t mark = 0) { runs_[rank]->begin_if_alike(kCollective, 1, mark); }
  /// Advances all that have begun until each is done, but for so many rounds.
  bool finish(const std::vector<std::size_t>& ranks, int rounds = 50) {
    for (int round = 0; round < rounds; ++round) {
      bool all = true;
      for (const std::size_t rank : ranks) {
        all = (runs_[rank]->advance() == Progress::done) && all;
      }
      if (all) {
        return true;
      }
    }
    return false;
  }

  std::unique_ptr<transport::LoopbackNet> net_;
  std::vector<std::unique_ptr<transport::Mailbox>> mailboxes_;
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<float>> results_;
  std::vector<std::unique_ptr<ScheduleRun>> runs_;
};

TEST_F(ScheduleRunTest, AddsUpThroughLinksOfOneMessage) {
  make(3, 100, 1);
  for (const std::size_t rank : {0u, 1u, 2u}) {
    begin(rank);
  }
  ASSERT_TRUE(finish({0, 1, 2}));
  for (const std::vector<float>& result : results_) {
    EXPECT_EQ(result, std::vector<float>(100, 6.0f));
  }
}

TEST_F(ScheduleRunTest, SaysWhomItWaitsForAndWhomItHasHeardFrom) {
  make(3, 4, 4);
  begin(0);
  begin(2);
  EXPECT_EQ(runs_[2]->advance(), Progress::again) << "it has sent";
  EXPECT_NE(runs_[0]->advance(), Progress::done);
  EXPECT_EQ(runs_[0]->waiting_for(), std::vector<int>{1});
  EXPECT_FALSE(runs_[0]->has_first_of(1));
  EXPECT_TRUE(runs_[0]->has_first_of(2));
  EXPECT_FALSE(runs_[0]->has_heard_from_all());
  EXPECT_EQ(results_[0], std::vector<float>(4, -1.0f)) << "nothing is written before all are heard from";
  begin(1);
  EXPECT_TRUE(finish({0, 1, 2}));
  EXPECT_TRUE(runs_[0]->waiting_for().empty());
}

TEST_F(ScheduleRunTest, IsVoidOnAllWhereOneMarkDiffers) {
  make(3, 100, 4);
  for (const std::size_t rank : {0u, 1u, 2u}) {
    begin(rank, rank == 1 ? 5 : 4);
  }
  ASSERT_TRUE(finish({0, 1, 2}));
  for (const std::size_t rank : {0u, 1u, 2u}) {
    EXPECT_TRUE(runs_[rank]->was_void());
    EXPECT_EQ(results_[rank], std::vector<float>(100, -1.0f));
    mailboxes_[rank]->receive();
    EXPECT_EQ(mailboxes_[rank]->kept(), 0u) << "later stages are forgotten";
  }
}

TEST_F(ScheduleRunTest, AnnouncesOnceWhateverRoomThereIs) {
  make(2, 100, 1);
  begin(0);
  runs_[0]->announce();
  runs_[0]->announce();
  mailboxes_[1]->receive();
  EXPECT_EQ(mailboxes_[1]->kept(), 1u);
  begin(1);
  ASSERT_TRUE(finish({0, 1}));
  EXPECT_EQ(results_[1], std::vector<float>(100, 3.0f));
  EXPECT_TRUE(mailboxes_[1]->status().is_ok()) << "nothing came twice";
}

TEST_F(ScheduleRunTest, AMessageOfAnotherLengthEndsTheMailbox) {
  make(2, 4, 4);
  mailboxes_[1]->compose(3);
  mailboxes_[1]->send(0, {kCollective, 0, 1});
  begin(0);
  EXPECT_FALSE(finish({0}, 5));
  EXPECT_EQ(mailboxes_[0]->status().code(), Code::internal);
  EXPECT_EQ(results_[0], std::vector<float>(4, -1.0f));
}

}  // namespace
}  // namespace ronde::collectives
