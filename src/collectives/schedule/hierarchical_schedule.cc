#include "collectives/schedule/hierarchical_schedule.h"

#include "collectives/schedule/balanced_slice.h"
#include "collectives/schedule/host_phases.h"

namespace ronde::collectives {

namespace {

/// Up to so many hosts slices of the least size were measured to do.
constexpr std::size_t kFewHosts = 8;
/// The partial sums of a whole window (phase_timetable.h) are in memory.
constexpr std::size_t kMostSlice = std::size_t{4} << 20;

class HierarchicalSchedule final : public HostPhases {
 public:
  using HostPhases::HostPhases;

  std::size_t scratch_bytes() const override { return is_on_rail() ? window_bytes() : 0; }
  std::size_t hears_all_by() const override { return timetable().stage_of(is_on_rail() ? 1 : 3, 0) + 1; }
  std::size_t telling_stage() const override { return timetable().stage_of(3, 0); }
  std::vector<int> told() const override { return is_on_rail() ? off_rails() : std::vector<int>(); }
  const std::vector<int>& inputs(std::size_t combination) const override {
    return !is_on_rail() ? none_ : combination == 0 ? locals_ : rail_;
  }

  void describe(std::size_t index, Stage& stage) const override {
    const auto [phase, chunk] = timetable().at(index);
    stage.after = phase == 0 ? timetable().after_window(chunk) : timetable().after_phase_before(phase, chunk);
    switch (phase) {
      case 0:
        gather_in_host(chunk, stage);
        reduce_in_host(chunk, stage);
        break;
      case 1: reduce_between_hosts(chunk, stage); break;
      case 2: share_between_hosts(chunk, stage); break;
      default: share_in_host(chunk, stage); break;
    }
  }

 private:
  Range part(std::size_t chunk, int host) const { return slice_of(own_slice(chunk), host, hosts_); }

  template <typename Visit>
  void for_each_other_host(Visit&& visit) const {
    for (int distance = 1; distance < hosts_ && is_on_rail(); ++distance) {
      const int other = (host_ + distance) % hosts_;
      visit(other, rail_[static_cast<std::size_t>(other)]);
    }
  }

  void reduce_between_hosts(std::size_t chunk, Stage& stage) const {
    if (!is_on_rail()) {
      return;
    }
    const Range own = part(chunk, host_);
    for_each_other_host([&](int host, int rank) {
      if (const Range theirs = part(chunk, host); is_sent(theirs, chunk)) {
        const std::size_t begin = in_scratch(chunk, theirs.begin);
        stage.outgoing.push_back({rank, {kScratch, begin, begin + theirs.bytes()}});
      }
      if (is_sent(own, chunk)) {
        stage.incoming.push_back({rank, piece(kKept, own)});
      }
    });
    if (own.bytes() > 0) {
      stage.work = Work::reduce_from_scratch;
      stage.combination = 1;
      stage.own = piece(kFromInputs, own);
      stage.scratch = in_scratch(chunk, own.begin);
    }
  }

  void share_between_hosts(std::size_t chunk, Stage& stage) const {
    for_each_other_host([&](int host, int rank) {
      if (const Range own = part(chunk, host_); own.bytes() > 0) {
        stage.outgoing.push_back({rank, piece(kFromOutputs, own)});
      }
      if (const Range theirs = part(chunk, host); theirs.bytes() > 0) {
        stage.incoming.push_back({rank, piece(kFromOutputs, theirs)});
      }
    });
  }

  const std::vector<int> none_;
};

}  // namespace

std::unique_ptr<Schedule> hierarchical_allreduce_schedule(int rank, const RankLayout& layout, std::size_t bytes,
                                                          std::size_t slice, std::size_t rails) {
  return std::make_unique<HierarchicalSchedule>(rank, layout, bytes, slice, rails);
}

std::size_t hierarchical_slice(std::size_t bytes, std::size_t rails, std::size_t hosts, std::size_t least) {
  return hosts <= kFewHosts ? least : balanced_slice(bytes / rails, hosts - kFewHosts, least, kMostSlice);
}

}  // namespace ronde::collectives
