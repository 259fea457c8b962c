#include "collectives/schedule/host_gather_schedule.h"

#include <utility>

#include "collectives/schedule/carried_parts.h"
#include "collectives/schedule/carried_stages.h"
#include "collectives/schedule/two_phase_order.h"

namespace ronde::collectives {

namespace {

class HostGatherSchedule final : public Schedule {
 public:
  explicit HostGatherSchedule(HostParts all)
      : all_(std::move(all)),
        carried_(all_),
        host_(all_.layout.host_of(all_.rank)),
        local_(all_.layout.local(all_.rank)),
        order_(carried_.count()) {}

  std::size_t stages() const override { return order_.stages(); }
  bool keeps_what_it_sends() const override { return true; }
  const std::vector<int>& inputs(std::size_t) const override { return none_; }

  void describe(std::size_t index, Stage& stage) const override {
    const TwoPhaseOrder::At at = order_.at(index);
    stage.after = at.after;
    at.is_first ? between_hosts(at.chunk, stage) : share_carried(all_, carried_, at.chunk, stage);
  }

 private:
  static Piece piece(int list, const Range& range) { return {list, range.begin, range.end}; }

  /// Beginning with a different one on each host, so that not all send to one at a time.
  void between_hosts(std::size_t index, Stage& stage) const {
    const RankLayout& layout = all_.layout;
    const Range own = carried_.slice(all_.rank, index);
    for (int distance = 1; distance < layout.hosts() && own.bytes() > 0; ++distance) {
      const int host = (host_ + distance) % layout.hosts();
      stage.outgoing.push_back({CarriedParts::carrier(layout, all_.rank, host), piece(CarriedParts::kOwnPart, own)});
    }
    carried_.for_each_slice_in(local_, index, [&](int rank, const Range& theirs) {
      if (rank != all_.rank && theirs.bytes() > 0) {
        stage.incoming.push_back({rank, piece(CarriedParts::list_of(local_), theirs)});
      }
    });
    stage.work = own.bytes() > 0 ? Work::carry_over : Work::none;
    stage.own = piece(CarriedParts::kOwnPart, own);
  }

  const HostParts all_;
  const CarriedParts carried_;
  const int host_;
  const int local_;
  const TwoPhaseOrder order_;
  const std::vector<int> none_;
};

}  // namespace

std::vector<GatherList> host_gather_lists(const HostParts& all, const std::vector<GatherList>& parts) {
  std::vector<GatherList> lists = CarriedParts(all).lists([&](GatherList& list, int rank, const Range& slice) {
    parts[static_cast<std::size_t>(rank)].for_each(
        slice.begin, slice.end,
        [&](const std::byte*, std::byte* to, std::size_t bytes, std::size_t) { list.append(to, to, bytes); });
  });
  lists.insert(lists.begin(), parts[static_cast<std::size_t>(all.rank)]);
  return lists;
}

std::unique_ptr<Schedule> host_gather_schedule(HostParts all) {
  return std::make_unique<HostGatherSchedule>(std::move(all));
}

}  // namespace ronde::collectives
