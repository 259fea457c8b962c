#include "collectives/schedule/chain_schedule.h"

#include <algorithm>

#include "collectives/schedule/host_phases.h"

namespace ronde::collectives {

namespace {

/// The way back is idle while the first chunk is on its way there, and the other way round at the end.
constexpr std::size_t kFewestChunks = 8;
/// A message of less costs as much as one of so many bytes.
constexpr std::size_t kLeastSlice = std::size_t{16} << 10;

class ChainSchedule final : public HostPhases {
 public:
  ChainSchedule(int rank, const RankLayout& layout, std::size_t bytes, std::size_t slice, std::size_t rails)
      : HostPhases(rank, layout, bytes, slice, rails) {
    if (is_on_rail() && !is_first_host()) {
      partial_and_locals_.push_back(rail_[0]);
      partial_and_locals_.insert(partial_and_locals_.end(), locals_.begin(), locals_.end());
    }
  }

  std::size_t scratch_bytes() const override { return is_on_rail() && is_first_host() ? window_bytes() : 0; }
  std::size_t hears_all_by() const override {
    return timetable().stage_of((is_first_host() ? 2 : 1) + (is_on_rail() ? 0 : 1), 0) + 1;
  }
  std::size_t telling_stage() const override { return timetable().stage_of(is_first_host() ? 3 : 2, 0); }
  std::vector<int> told() const override {
    std::vector<int> ranks;
    if (is_on_rail()) {
      ranks = off_rails();
      if (!is_first_host()) {
        ranks.push_back(rail_[0]);
      }
    }
    return ranks;
  }
  const std::vector<int>& inputs(std::size_t combination) const override {
    return combination == 1 ? partial_and_locals_ : is_on_rail() && is_first_host() ? locals_ : none_;
  }

  void describe(std::size_t index, Stage& stage) const override {
    const auto [phase, chunk] = timetable().at(index);
    const bool begins_chunk = phase == (is_first_host() ? 0 : 1);
    stage.after =
        phase == 0 || begins_chunk ? timetable().after_window(chunk) : timetable().after_phase_before(phase, chunk);
    if (is_first_host()) {
      describe_first_host(phase, chunk, stage);
    } else {
      describe_second_host(phase, chunk, stage);
    }
  }

 private:
  bool is_first_host() const { return host_ == 0; }

  void describe_first_host(std::size_t phase, std::size_t chunk, Stage& stage) const {
    const Range own = is_on_rail() ? own_slice(chunk) : Range{};
    const bool is_carried = is_on_rail() && is_sent(own, chunk);
    switch (phase) {
      case 0:
        gather_in_host(chunk, stage);
        reduce_in_host(chunk, stage);
        break;
      case 1:
        if (is_carried) {
          const std::size_t begin = in_scratch(chunk, own.begin);
          stage.outgoing.push_back({rail_[1], {kScratch, begin, begin + own.bytes()}});
        }
        break;
      case 2:
        if (is_carried) {
          stage.incoming.push_back({rail_[1], piece(kFromOutputs, own)});
        }
        break;
      default: share_in_host(chunk, stage); break;
    }
  }

  void describe_second_host(std::size_t phase, std::size_t chunk, Stage& stage) const {
    const Range own = is_on_rail() ? own_slice(chunk) : Range{};
    const bool is_carried = is_on_rail() && is_sent(own, chunk);
    if (phase == 1) {
      gather_in_host(chunk, stage);
      if (is_carried) {
        stage.incoming.push_back({rail_[0], piece(kKept, own)});
      }
      if (own.bytes() > 0) {
        stage.work = Work::reduce;
        stage.combination = 1;
        stage.own = piece(kFromInputs, own);
      }
    } else if (phase == 2) {
      if (is_carried) {
        stage.outgoing.push_back({rail_[0], piece(kFromOutputs, own)});
      }
      share_in_host(chunk, stage);
    }
  }

  std::vector<int> partial_and_locals_;  ///< of a rank of the second host's rails, else empty
  const std::vector<int> none_;
};

}  // namespace

std::unique_ptr<Schedule> chain_allreduce_schedule(int rank, const RankLayout& layout, std::size_t bytes,
                                                   std::size_t slice, std::size_t rails) {
  return std::make_unique<ChainSchedule>(rank, layout, bytes, slice, rails);
}

std::size_t chain_slice(std::size_t bytes, std::size_t rails, std::size_t most) {
  return std::min(std::max(round_up_to_line(bytes / (rails * kFewestChunks)), kLeastSlice), most);
}

}  // namespace ronde::collectives
