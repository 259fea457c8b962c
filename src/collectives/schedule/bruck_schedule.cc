#include "collectives/schedule/bruck_schedule.h"

#include <algorithm>

#include "collectives/schedule/turns.h"

namespace ronde::collectives {

namespace {

class BruckSchedule final : public Schedule {
 public:
  BruckSchedule(int rank, const RankLayout& layout, std::size_t bytes, std::size_t turn)
      : bytes_(bytes),
        own_(static_cast<std::size_t>(layout.host_of(rank))),
        locals_(layout.ranks_of(layout.host_of(rank))),
        has_locals_(layout.is_hierarchy()),
        is_first_(locals_.front() == rank),
        radices_(best_turns(static_cast<std::size_t>(layout.hosts()), turn)) {
    for (int host = 0; host < layout.hosts(); ++host) {
      firsts_.push_back(layout.ranks_of(host).front());
      blocks_.push_back(block((firsts_.size() - 1 + hosts_of(layout) - own_) % hosts_of(layout)));
    }
  }

  std::size_t stages() const override { return of_result() + (has_locals_ ? 1 : 0); }
  bool keeps_what_it_sends() const override { return true; }
  std::size_t scratch_bytes() const override { return is_first_ ? block(firsts_.size()) : 0; }
  std::size_t hears_all_by() const override { return of_result() + (is_first_ ? 0 : 1); }
  std::size_t telling_stage() const override { return of_result(); }
  std::vector<int> told() const override {
    return is_first_ ? std::vector<int>(locals_.begin() + 1, locals_.end()) : std::vector<int>();
  }
  std::size_t combinations() const override { return has_locals_ ? 2 : 1; }
  const std::vector<int>& inputs(std::size_t combination) const override {
    return !is_first_ ? none_ : combination + 1 == combinations() ? firsts_ : locals_;
  }
  std::size_t gathered(std::size_t input) const override { return blocks_[input]; }

  void describe(std::size_t index, Stage& stage) const override {
    stage.after = index;
    if (index == 0) {
      gather_in_host(stage);
    } else if (index < of_result()) {
      take_turn(index - 1, stage);
    } else {
      share_in_host(stage);
    }
    if (index + 1 == of_result() && is_first_) {
      stage.work = Work::reduce_gathered;
      stage.combination = combinations() - 1;
      stage.own = whole(kFromInputs);
    }
  }

 private:
  static constexpr int kFromInputs = 0;
  static constexpr int kFromOutputs = 1;

  static std::size_t hosts_of(const RankLayout& layout) { return static_cast<std::size_t>(layout.hosts()); }
  /// The stage in which ranks that are not the first of a host hear the result.
  std::size_t of_result() const { return 1 + radices_.size(); }
  /// Where a block begins.
  std::size_t block(std::size_t index) const {
    return index * ((bytes_ + kAlignment - 1) / kAlignment * kAlignment);
  }
  Piece blocks(std::size_t begin, std::size_t count) const {
    return {kScratch, block(begin), block(begin + count - 1) + bytes_};
  }
  Piece whole(int list) const { return {list, 0, bytes_}; }

  void gather_in_host(Stage& stage) const {
    if (!is_first_) {
      stage.outgoing.push_back({locals_.front(), whole(kFromInputs)});
      return;
    }
    for (std::size_t i = 1; i < locals_.size(); ++i) {
      stage.incoming.push_back({locals_[i], whole(kKept)});
    }
    stage.work = has_locals_ ? Work::reduce_to_scratch : Work::copy_to_scratch;
    stage.own = whole(kFromInputs);
    stage.scratch = block(0);
  }

  void take_turn(std::size_t turn, Stage& stage) const {
    if (!is_first_) {
      return;
    }
    const std::size_t hosts = firsts_.size();
    for_each_message(radices_, turn, hosts, [&](std::size_t step, std::size_t count) {
      stage.outgoing.push_back({firsts_[(own_ + hosts - step) % hosts], blocks(0, count)});
      stage.incoming.push_back({firsts_[(own_ + step) % hosts], blocks(step, count)});
    });
  }

  void share_in_host(Stage& stage) const {
    if (!is_first_) {
      stage.incoming.push_back({locals_.front(), whole(kFromOutputs)});
      return;
    }
    for (std::size_t i = 1; i < locals_.size(); ++i) {
      stage.outgoing.push_back({locals_[i], whole(kFromOutputs)});
    }
  }

  static constexpr std::size_t kAlignment = 16;  ///< of the largest element

  const std::size_t bytes_;
  const std::size_t own_;          ///< this host
  const std::vector<int> locals_;  ///< its ranks, in order
  const bool has_locals_;          ///< some host has several
  const bool is_first_;            ///< of its host
  const std::vector<std::size_t> radices_;
  std::vector<int> firsts_;          ///< by host
  std::vector<std::size_t> blocks_;  ///< by host, where in scratch memory what it has lies
  const std::vector<int> none_;
};

}  // namespace

std::unique_ptr<Schedule> bruck_allreduce_schedule(int rank, const RankLayout& layout, std::size_t bytes,
                                                   std::size_t turn) {
  return std::make_unique<BruckSchedule>(rank, layout, bytes, turn);
}

}  // namespace ronde::collectives
