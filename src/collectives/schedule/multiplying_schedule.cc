#include "collectives/schedule/multiplying_schedule.h"

#include <algorithm>
#include <utility>

namespace ronde::collectives {

namespace {

constexpr int kFromInputs = 0;
constexpr int kFromOutputs = 1;

class MultiplyingSchedule final : public Schedule {
 public:
  MultiplyingSchedule(int rank, const RankLayout& layout, std::size_t bytes, Turns turns)
      : rank_(rank),
        bytes_(bytes),
        turns_(std::move(turns)),
        host_(layout.host_of(rank)),
        locals_(layout.ranks_of(host_)),
        has_fold_(turns_.core < layout.hosts()),
        is_shared_(has_fold_ || layout.is_hierarchy()),
        is_fold_told_(has_folded_locals(layout)),
        is_first_(locals_.front() == rank) {
    for (int host = 0; host < layout.hosts(); ++host) {
      firsts_.push_back(layout.ranks_of(host).front());
    }
    inputs_.resize(2 + turns_.radices.size());
    if (!is_first_) {
      return;
    }
    inputs_[0] = locals_;
    if (const int partner = partner_in_fold(); partner >= 0 && is_in_core()) {
      inputs_[1] = {std::min(rank, partner), std::max(rank, partner)};
    }
    for (std::size_t turn = 0; turn < turns_.radices.size() && is_in_core(); ++turn) {
      inputs_[2 + turn] = members(turn);
    }
  }

  std::size_t stages() const override { return first_of_result() + (is_shared_ ? 1 : 0) + (is_fold_told_ ? 1 : 0); }
  bool keeps_what_it_sends() const override { return true; }
  std::size_t scratch_bytes() const override { return is_first_ ? (turns_.radices.size() + 1) * slot_bytes() : 0; }
  std::size_t hears_all_by() const override {
    return first_of_result() + (is_in_core() && is_first_ ? 0 : is_in_core() || is_first_ ? 1 : 2);
  }
  std::size_t telling_stage() const override { return first_of_result() + (is_in_core() ? 0 : 1); }
  std::vector<int> told() const override {
    std::vector<int> ranks;
    if (is_first_) {
      ranks.assign(locals_.begin() + 1, locals_.end());
      if (const int partner = partner_in_fold(); partner >= 0 && is_in_core()) {
        ranks.push_back(partner);
      }
    }
    return ranks;
  }
  std::size_t combinations() const override { return inputs_.size(); }
  const std::vector<int>& inputs(std::size_t combination) const override { return inputs_[combination]; }

  void describe(std::size_t index, Stage& stage) const override {
    stage.after = index;
    if (index == 0) {
      gather(stage);
    } else if (index < first_turn()) {
      fold(stage);
    } else if (index < first_of_result()) {
      take_turn(index - first_turn(), stage);
    } else {
      share(index - first_of_result(), stage);
    }
  }

 private:
  bool is_in_core() const { return host_ < turns_.core; }
  bool has_folded_locals(const RankLayout& layout) const {
    for (int host = turns_.core; host < layout.hosts(); ++host) {
      if (layout.ranks_of(host).size() > 1) {
        return true;
      }
    }
    return false;
  }
  std::size_t first_turn() const { return has_fold_ ? 2 : 1; }
  std::size_t first_of_result() const { return first_turn() + turns_.radices.size(); }
  /// The first rank of the host that folds into this one, or into which this one folds; -1: there is none.
  int partner_in_fold() const {
    const int other = is_in_core() ? host_ + turns_.core : host_ - turns_.core;
    return other < static_cast<int>(firsts_.size()) ? firsts_[static_cast<std::size_t>(other)] : -1;
  }
  /// First ranks of the hosts that take part in a turn with this one, in order, this rank among them.
  std::vector<int> members(std::size_t turn) const {
    int weight = 1;
    for (std::size_t before = 0; before < turn; ++before) {
      weight *= turns_.radices[before];
    }
    const int radix = turns_.radices[turn];
    const int base = host_ - host_ / weight % radix * weight;
    std::vector<int> ranks;
    for (int digit = 0; digit < radix; ++digit) {
      ranks.push_back(firsts_[static_cast<std::size_t>(base + digit * weight)]);
    }
    return ranks;
  }

  std::size_t slot_bytes() const { return (bytes_ + kAlignment - 1) / kAlignment * kAlignment; }
  /// Where what this rank has before a turn lies.
  std::size_t slot(std::size_t turn) const { return turn * slot_bytes(); }
  Piece in_slot(std::size_t turn) const { return {kScratch, slot(turn), slot(turn) + bytes_}; }
  Piece whole(int list) const { return {list, 0, bytes_}; }

  void gather(Stage& stage) const {
    if (!is_first_) {
      stage.outgoing.push_back({locals_.front(), whole(kFromInputs)});
      return;
    }
    for (std::size_t i = 1; i < locals_.size(); ++i) {
      stage.incoming.push_back({locals_[i], whole(kKept)});
    }
    stage.work = Work::reduce_to_scratch;
    stage.own = whole(kFromInputs);
    // A fold reads the last slot, which is not used before the last turn.
    stage.scratch = is_in_core() && partner_in_fold() >= 0 ? slot(turns_.radices.size()) : slot(0);
  }

  void fold(Stage& stage) const {
    const int partner = is_first_ ? partner_in_fold() : -1;
    if (partner < 0) {
      return;
    }
    if (!is_in_core()) {
      stage.outgoing.push_back({partner, in_slot(0)});
      return;
    }
    stage.incoming.push_back({partner, whole(kKept)});
    stage.work = Work::reduce_in_scratch;
    stage.combination = 1;
    stage.own = whole(kFromInputs);
    stage.scratch = slot(turns_.radices.size());
    stage.scratch_after = slot(0);
  }

  void take_turn(std::size_t turn, Stage& stage) const {
    if (!is_first_ || !is_in_core()) {
      return;
    }
    const std::vector<int>& ranks = inputs_[2 + turn];
    const std::size_t own = static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
    for (std::size_t distance = 1; distance < ranks.size(); ++distance) {  // not all to one at a time
      stage.outgoing.push_back({ranks[(own + distance) % ranks.size()], in_slot(turn)});
      stage.incoming.push_back({ranks[(own + ranks.size() - distance) % ranks.size()], whole(kKept)});
    }
    const bool is_last = turn + 1 == turns_.radices.size();
    stage.work = is_last ? Work::reduce_from_scratch : Work::reduce_in_scratch;
    stage.combination = 2 + turn;
    stage.own = whole(kFromInputs);
    stage.scratch = slot(turn);
    stage.scratch_after = slot(turn + 1);
  }

  /// `step`: 0 from the core, 1 from the first ranks of hosts beyond it.
  void share(std::size_t step, Stage& stage) const {
    if (is_first_ && step == (is_in_core() ? 0U : 1U)) {
      for (const int rank : told()) {
        stage.outgoing.push_back({rank, whole(kFromOutputs)});
      }
    } else if (is_first_ && step == 0) {
      stage.incoming.push_back({partner_in_fold(), whole(kFromOutputs)});
    } else if (!is_first_ && step == (is_in_core() ? 0U : 1U)) {
      stage.incoming.push_back({locals_.front(), whole(kFromOutputs)});
    }
  }

  static constexpr std::size_t kAlignment = 64;

  const int rank_;
  const std::size_t bytes_;
  const Turns turns_;
  const int host_;
  const std::vector<int> locals_;  ///< of this host, in order
  const bool has_fold_;
  const bool is_shared_;     ///< some rank hears the result from another one
  const bool is_fold_told_;  ///< some host beyond the core has other ranks to be told
  const bool is_first_;      ///< of its host
  std::vector<int> firsts_;  ///< by host
  std::vector<std::vector<int>> inputs_;
};

}  // namespace

std::unique_ptr<Schedule> multiplying_allreduce_schedule(int rank, const RankLayout& layout, std::size_t bytes,
                                                         Turns turns) {
  return std::make_unique<MultiplyingSchedule>(rank, layout, bytes, std::move(turns));
}

}  // namespace ronde::collectives
