#include "collectives/schedule/barrier_schedule.h"

namespace ronde::collectives {

namespace {

class BarrierSchedule final : public Schedule {
 public:
  BarrierSchedule(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  std::size_t stages() const override {
    std::size_t stages = 0;
    for (long reached = 1; reached < ranks_; reached *= 2) {
      ++stages;
    }
    return stages;
  }
  void describe(std::size_t index, Stage& stage) const override {
    const int distance = 1 << index;
    stage.after = index;
    stage.outgoing.push_back({(rank_ + distance) % ranks_, {}});
    stage.incoming.push_back({(rank_ + ranks_ - distance) % ranks_, {kKept, 0, 0}});
  }
  const std::vector<int>& inputs(std::size_t) const override { return none_; }

 private:
  const int rank_;
  const int ranks_;
  const std::vector<int> none_;
};

}  // namespace

std::unique_ptr<Schedule> barrier_schedule(int rank, int ranks) {
  return std::make_unique<BarrierSchedule>(rank, ranks);
}

}  // namespace ronde::collectives
