// Breaks of replay while ranks are at different points of a step: the n-th submission of a name meets the n-th on every
// other rank whatever the moment of the break.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/engine.h"
#include "support/effort.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using test::LocalWorld;

constexpr int kSteps = 60;
constexpr int kStepsBetweenBreaks = 6;

float value_of(int step, int rank) { return static_cast<float>((7 * step + 3 * rank) % 50 + 1); }

/// One rank's program: in each step "x" and "y". Now and then "x" has another size, of which the first rank to submit
/// it leaves the epoch while others are at the step before.
class Program {
 public:
  Program(LocalWorld& world, int rank, std::size_t elements) : world_(world), rank_(rank), elements_(elements) {}

  bool is_over() const { return step_ == kSteps; }
  /// Goes on to its next wait, if what it waits for is done.
  void run() {
    if (tickets_.empty() && !is_over()) {
      submit();
      return;
    }
    for (const TicketPtr& ticket : tickets_) {
      if (!ticket->is_done()) {
        world_.engine(rank_).want(*ticket);
        return;
      }
    }
    if (!tickets_.empty()) {
      check();
    }
  }

 private:
  void submit() {
    y_.assign(10, 1.0f);
    x_.assign(elements_ + static_cast<std::size_t>(step_ / kStepsBetweenBreaks % 2), value_of(step_, rank_));
    tickets_.push_back(world_.submit(rank_, test::allreduce("y", y_)));
    tickets_.push_back(world_.submit(rank_, test::allreduce("x", x_)));
  }
  void check() {
    float sum = 0;
    for (int rank = 0; rank < world_.size(); ++rank) {
      sum += value_of(step_, rank);
    }
    for (const TicketPtr& ticket : tickets_) {
      ASSERT_TRUE(ticket->status()) << ticket->status().message();
      world_.wait(rank_, *ticket);
    }
    ASSERT_EQ(x_.front(), sum) << "step " << step_ << " of rank " << rank_;
    ASSERT_EQ(x_.back(), sum) << "step " << step_ << " of rank " << rank_;
    tickets_.clear();
    ++step_;
  }

  LocalWorld& world_;
  const int rank_;
  const std::size_t elements_;
  std::vector<float> x_, y_;
  std::vector<TicketPtr> tickets_;
  int step_ = 0;
};

class Breaks : public testing::TestWithParam<int> {};

TEST_P(Breaks, NoRankIsAStepBehindAfterOne) {
  for (const std::size_t elements : {std::size_t{100}, std::size_t{20000}}) {
    for (int seed = 0; seed < effort(20); ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(elements) + " elements");
      LocalWorld world(GetParam());
      std::vector<Program> programs;
      for (int rank = 0; rank < world.size(); ++rank) {
        programs.emplace_back(world, rank, elements);
      }
      std::mt19937 random(static_cast<unsigned>(seed));
      // A rank that is taken moves for a while: one may find at once what all others have said.
      int turns = 0;
      while (!std::all_of(programs.begin(), programs.end(), [](const Program& each) { return each.is_over(); })) {
        ASSERT_LT(++turns, 1000000) << "nothing moves any more";
        const auto rank = static_cast<int>(random() % static_cast<unsigned>(world.size()));
        for (unsigned more = random() % 12; more > 0; --more) {
          world.step(rank);
        }
        programs[static_cast<std::size_t>(rank)].run();
        world.clock().advance(kMillisecond);
        if (testing::Test::HasFatalFailure()) {
          return;
        }
      }
      EXPECT_GT(world.engine(0).replay_counters().instances, 0u);
      EXPECT_GE(world.engine(0).replay_counters().breaks, 3u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Breaks, testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace ronde::engine
