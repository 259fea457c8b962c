// Runs whose messages are written to where they belong as they come (Link::expect_at()).
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "collectives/schedule/schedule_run.h"
#include "collectives/schedule/two_phase_schedule.h"
#include "transport/loopback/links.h"

namespace ronde::collectives {
namespace {

constexpr std::uint32_t kPlacedRuns = 7;
constexpr std::size_t kSlice = std::size_t{32} << 10;

/// Ranks that add up floats in two phases, in messages that are large enough to be placed. Rank r has r + 1 + i % 97.
class PlacedMessages : public testing::Test {
 protected:
  /// `cuts`: where one tensor ends and the next begins, in elements.
  void make(int ranks, std::size_t count, bool is_in_place, std::vector<std::size_t> cuts = {}) {
    net_ = std::make_unique<transport::LoopbackNet>(ranks, 3);
    inputs_.resize(static_cast<std::size_t>(ranks));
    outputs_.resize(inputs_.size());
    cuts.push_back(count);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      mailboxes_.push_back(std::make_unique<transport::Mailbox>(&net_->transport(rank), rank, ranks));
      inputs_[index].resize(count);
      outputs_[index].assign(count, -1.0f);
      for (std::size_t i = 0; i < count; ++i) {
        inputs_[index][i] = static_cast<float>(index + 1 + i % 97);
      }
      std::vector<float>& to = is_in_place ? inputs_[index] : outputs_[index];
      GatherList inputs;
      GatherList outputs;
      for (std::size_t i = 0, begin = 0; i < cuts.size(); begin = cuts[i++]) {
        inputs.append(inputs_[index].data() + begin, to.data() + begin, (cuts[i] - begin) * sizeof(float));
        outputs.append(to.data() + begin, to.data() + begin, (cuts[i] - begin) * sizeof(float));
      }
      runs_.push_back(std::make_unique<ScheduleRun>(
          *mailboxes_[index], two_phase_allreduce_schedule(rank, ranks, count * sizeof(float), kSlice),
          std::vector<GatherList>{inputs, outputs}, std::vector<Combination>{{}}));
    }
  }
  void begin_all(std::uint64_t mark = 3) {
    for (auto& run : runs_) {
      run->begin_if_alike(kPlacedRuns, 1, mark);
    }
  }
  void expect_sums(const std::vector<float>& of) const {
    const std::size_t ranks = runs_.size();
    for (std::size_t i = 0; i < of.size(); ++i) {
      ASSERT_EQ(of[i], static_cast<float>(ranks * (ranks + 1) / 2 + ranks * (i % 97))) << i;
    }
  }

  std::unique_ptr<transport::LoopbackNet> net_;
  std::vector<std::unique_ptr<transport::Mailbox>> mailboxes_;
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<float>> outputs_;
  std::vector<std::unique_ptr<ScheduleRun>> runs_;
};

class PlacedMessagesOfRanks : public PlacedMessages, public testing::WithParamInterface<std::tuple<int, bool>> {};
INSTANTIATE_TEST_SUITE_P(PlacedMessages, PlacedMessagesOfRanks,
                         testing::Combine(testing::Values(2, 3, 5), testing::Bool()));

TEST_P(PlacedMessagesOfRanks, GiveTheSumsInWhateverOrderRanksStep) {
  const auto [ranks, is_in_place] = GetParam();
  for (const std::size_t seed : {1u, 2u, 3u, 4u, 5u, 6u}) {
    std::mt19937_64 random(seed);
    mailboxes_.clear();
    runs_.clear();
    const std::size_t chunk = kSlice / sizeof(float) * static_cast<std::size_t>(ranks);
    const std::size_t count = chunk * (seed + 1) + seed * 1001;
    // Tensors that end within slices, at their ends, and many within one.
    make(ranks, count, is_in_place, {chunk / 2 + 3, chunk, chunk + 5, chunk + 6, chunk + 900});
    begin_all();
    std::size_t done = 0;
    std::vector<bool> is_done(runs_.size());
    for (int steps = 0; done < runs_.size(); ++steps) {
      ASSERT_LT(steps, 200000);
      const std::size_t rank = random() % runs_.size();
      if (random() % 3 == 0) {
        mailboxes_[rank]->receive();  // for another of its runs
      } else if (!is_done[rank] && runs_[rank]->advance() == Progress::done) {
        is_done[rank] = true;
        ++done;
      }
    }
    for (std::size_t rank = 0; rank < runs_.size(); ++rank) {
      ASSERT_NO_FATAL_FAILURE(expect_sums(is_in_place ? inputs_[rank] : outputs_[rank])) << rank;
      EXPECT_TRUE(mailboxes_[rank]->status());
    }
  }
}

class OneChunkOfTwo : public PlacedMessages {
 protected:
  /// Rank 0 has heard rank 1, whose reduced slice is on its way.
  void reach_second_phase() {
    make(2, kCount, false);
    begin_all();
    for (const std::size_t rank : {1u, 0u, 1u}) {
      while (runs_[rank]->advance() == Progress::again) {
      }
    }
  }
  bool is_done(std::size_t rank) {
    Progress progress = Progress::again;
    while (progress == Progress::again) {
      progress = runs_[rank]->advance();
    }
    return progress == Progress::done;
  }
  static constexpr std::size_t kCount = 2 * kSlice / sizeof(float);
};

TEST_F(OneChunkOfTwo, IsWrittenToTheOutputBeforeTheRunLooks) {
  reach_second_phase();
  EXPECT_EQ(outputs_[0].back(), -1.0f);
  mailboxes_[0]->receive();
  ASSERT_NO_FATAL_FAILURE(expect_sums(outputs_[0]));
  EXPECT_TRUE(is_done(0));
}

TEST_F(OneChunkOfTwo, IsNotWrittenToOnceTheRunWasGivenUp) {
  reach_second_phase();
  runs_[0]->give_up();
  mailboxes_[0]->receive();
  EXPECT_EQ(outputs_[0].back(), -1.0f);
  EXPECT_TRUE(mailboxes_[0]->status());
}

TEST_F(OneChunkOfTwo, IsNotWrittenToOnceAllMemoryIsTakenBack) {
  reach_second_phase();
  mailboxes_[0]->drop_lent();
  mailboxes_[0]->receive();
  EXPECT_EQ(outputs_[0].back(), -1.0f);
  EXPECT_TRUE(is_done(0)) << "what came is kept, and copied";
  ASSERT_NO_FATAL_FAILURE(expect_sums(outputs_[0]));
}

TEST_F(PlacedMessages, NothingIsWrittenWhereMarksDiffer) {
  make(3, 6 * kSlice / sizeof(float), true);
  const std::vector<std::vector<float>> before = inputs_;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    runs_[rank]->begin_if_alike(kPlacedRuns, 1, rank == 2 ? 5 : 4);
  }
  for (int round = 0; round < 100; ++round) {
    for (auto& run : runs_) {
      run->advance();
    }
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(runs_[rank]->was_void());
    EXPECT_EQ(inputs_[rank], before[rank]);
  }
}

}  // namespace
}  // namespace ronde::collectives
