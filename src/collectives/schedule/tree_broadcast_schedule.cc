#include "collectives/schedule/tree_broadcast_schedule.h"

#include <algorithm>
#include <vector>

#include "collectives/schedule/turns.h"

namespace ronde::collectives {

namespace {

class TreeBroadcastSchedule final : public Schedule {
 public:
  TreeBroadcastSchedule(int rank, int ranks, int root, std::size_t bytes, std::size_t turn)
      : ranks_(static_cast<std::size_t>(ranks)),
        root_(static_cast<std::size_t>(root)),
        own_((static_cast<std::size_t>(rank) + ranks_ - root_) % ranks_),
        bytes_(bytes),
        radices_(best_turns(ranks_, turn)) {}

  std::size_t stages() const override { return radices_.size(); }
  bool keeps_what_it_sends() const override { return true; }
  std::size_t hears_all_by() const override { return stages(); }
  const std::vector<int>& inputs(std::size_t) const override { return none_; }

  void describe(std::size_t index, Stage& stage) const override {
    stage.after = index;
    std::size_t have = 1;
    for (std::size_t before = 0; before < index; ++before) {
      have *= radices_[before];
    }
    const std::size_t will_have = std::min(have * radices_[index], ranks_);
    if (own_ >= have && own_ < will_have) {
      stage.incoming.push_back({rank_of(own_ % have), {kFromOutputs, 0, bytes_}});
    }
    for (std::size_t next = own_ + have; own_ < have && next < will_have; next += have) {
      stage.outgoing.push_back({rank_of(next), {own_ == 0 ? kFromInputs : kFromOutputs, 0, bytes_}});
    }
    if (own_ == 0 && index == 0) {
      stage.work = Work::carry_over;
      stage.own = {kFromInputs, 0, bytes_};
    }
  }

 private:
  static constexpr int kFromInputs = 0;
  static constexpr int kFromOutputs = 1;

  /// Of the number that it has counted from the root.
  int rank_of(std::size_t number) const { return static_cast<int>((root_ + number) % ranks_); }

  const std::size_t ranks_;
  const std::size_t root_;
  const std::size_t own_;  ///< this rank, counted from the root
  const std::size_t bytes_;
  const std::vector<std::size_t> radices_;
  const std::vector<int> none_;
};

}  // namespace

std::unique_ptr<Schedule> tree_broadcast_schedule(int rank, int ranks, int root, std::size_t bytes, std::size_t turn) {
  return std::make_unique<TreeBroadcastSchedule>(rank, ranks, root, bytes, turn);
}

}  // namespace ronde::collectives
