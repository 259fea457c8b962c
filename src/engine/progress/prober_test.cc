#include "engine/progress/prober.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <future>
#include <mutex>

#include "collectives/tuning/derived_table.h"

namespace ronde::engine {
namespace {

using collectives::kReference;
using collectives::Measurement;
using collectives::Table;
using collectives::TableCache;

Measurement with_hand_over(double nanoseconds) {
  Measurement machine = kReference;
  machine.hand_over = nanoseconds;
  return machine;
}

/// A prober whose measurements the test gives.
class ProberTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override {
    prober_.reset();  // its thread may be writing into the folder
    std::filesystem::remove_all(folder_);
  }

  ProbeTask task(int ranks) {
    ProbeTask made;
    made.ranks = ranks;
    made.row = Table::built_in().of(ranks);
    made.cache = cache();
    made.first = made.again = made.retry = kMillisecond;
    made.measure = [this](const ProbeTask::Stop&) -> std::optional<Measurement> {
      ++measured_;
      return is_busy_ ? std::nullopt : std::optional(with_hand_over(hand_over_));
    };
    made.measure_hand_over = [this](const ProbeTask::Stop&) -> std::optional<double> {
      ++looked_;
      return is_busy_ ? std::nullopt : std::optional<double>(hand_over_);
    };
    return made;
  }
  TableCache cache() const { return {folder_ + "/table", "# here"}; }
  void start(ProbeTask task) {
    prober_ = Prober::start(
        std::move(task),
        [this] {
          ++asked_;
          return reduced_ += reduces_ ? 1 : 0;
        },
        [this](const Thresholds& row) {
          std::lock_guard lock(mutex_);
          proposed_.push_back(row);
        });
    ASSERT_NE(prober_, nullptr);
  }
  std::vector<Thresholds> proposed() {
    std::lock_guard lock(mutex_);
    return proposed_;
  }
  template <typename Condition>
  static bool eventually(const Condition& condition) {
    const RealClock clock;
    const Nanoseconds limit = clock.now() + 20 * kSecond;
    while (!condition() && clock.now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
  }

  std::string folder_ = testing::TempDir() + "prober-XXXXXX";
  std::atomic<double> hand_over_{200};
  std::atomic<bool> is_busy_{false};
  std::atomic<bool> reduces_{true};
  std::atomic<std::uint64_t> reduced_{0};
  std::atomic<int> measured_{0};
  std::atomic<int> looked_{0};
  std::atomic<int> asked_{0};
  std::mutex mutex_;
  std::vector<Thresholds> proposed_;
  std::unique_ptr<Prober> prober_;  // last: its thread uses the others
};

TEST_F(ProberTest, ProposesWhatIsMeasuredAndKeepsIt) {
  start(task(4));
  ASSERT_TRUE(eventually([&] { return !proposed().empty(); }));
  EXPECT_EQ(proposed()[0], collectives::derive_row(with_hand_over(200), 4));
  ASSERT_TRUE(eventually([&] { return looked_ > 3; }));
  EXPECT_EQ(measured_, 1) << "nothing has changed";
  EXPECT_EQ(proposed().size(), 1u);
  const auto kept = cache().load();
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->hand_over, 200);
  EXPECT_EQ(kept->table.of(4), proposed()[0]);
}

TEST_F(ProberTest, ProposesNothingWhereTheRowIsTheSame) {
  start(task(2));
  ASSERT_TRUE(eventually([&] { return looked_ > 3; }));
  EXPECT_TRUE(cache().load());
  EXPECT_TRUE(proposed().empty());
}

TEST_F(ProberTest, ProposesAgainOnceTheHandOverHasChanged) {
  ProbeTask known = task(4);
  known.hand_over = 100;
  hand_over_ = 140;
  start(std::move(known));
  ASSERT_TRUE(eventually([&] { return looked_ > 3; }));
  EXPECT_EQ(measured_, 0) << "that is no change";
  hand_over_ = 50;
  ASSERT_TRUE(eventually([&] { return proposed().size() == 1; }));
  hand_over_ = 200;
  ASSERT_TRUE(eventually([&] { return proposed().size() == 2; }));
  EXPECT_EQ(proposed()[1].one_shot, 4 * proposed()[0].one_shot);
  EXPECT_EQ(measured_, 2);
}

TEST_F(ProberTest, TriesAgainWhenTheCoresWereBusy) {
  is_busy_ = true;
  start(task(4));
  ASSERT_TRUE(eventually([&] { return measured_ > 2; }));
  EXPECT_FALSE(cache().load());
  is_busy_ = false;
  EXPECT_TRUE(eventually([&] { return proposed().size() == 1; }));
}

TEST_F(ProberTest, DoesNotLookWhileNothingIsReduced) {
  reduces_ = false;
  ProbeTask known = task(4);
  known.hand_over = 100;
  start(std::move(known));
  ASSERT_TRUE(eventually([&] { return asked_ > 5; }));
  EXPECT_EQ(looked_, 0) << "five times it might have looked";
  reduces_ = true;
  EXPECT_TRUE(eventually([&] { return looked_ > 0; }));
}

TEST_F(ProberTest, EndsAtOnce) {
  ProbeTask later = task(4);
  later.first = 3600 * kSecond;
  const Nanoseconds begin = RealClock().now();
  start(std::move(later));
  prober_.reset();
  EXPECT_LT(RealClock().now() - begin, 10 * kSecond);
  EXPECT_EQ(measured_, 0);
}

}  // namespace
}  // namespace ronde::engine
