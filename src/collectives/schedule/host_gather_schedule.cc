#include "collectives/schedule/host_gather_schedule.h"

#include <utility>

#include "collectives/schedule/carried_parts.h"
#include "collectives/schedule/two_phase_order.h"

namespace ronde::collectives {

namespace {

CarriedParts carried_for(const HostGather& gather) {
  return CarriedParts(gather.layout, gather.layout.host_of(gather.rank), gather.bytes, gather.slice);
}

class HostGatherSchedule final : public Schedule {
 public:
  explicit HostGatherSchedule(HostGather gather)
      : gather_(std::move(gather)),
        carried_(carried_for(gather_)),
        host_(gather_.layout.host_of(gather_.rank)),
        local_(gather_.layout.local(gather_.rank)),
        order_(carried_.count()) {}

  std::size_t stages() const override { return order_.stages(); }
  bool keeps_what_it_sends() const override { return true; }
  const std::vector<int>& inputs(std::size_t) const override { return none_; }

  void describe(std::size_t index, Stage& stage) const override {
    const TwoPhaseOrder::At at = order_.at(index);
    stage.after = at.after;
    at.is_first ? between_hosts(at.chunk, stage) : in_host(at.chunk, stage);
  }

 private:
  static Piece piece(int list, const Range& range) { return {list, range.begin, range.end}; }

  /// Beginning with a different one on each host, so that not all send to one at a time.
  void between_hosts(std::size_t index, Stage& stage) const {
    const RankLayout& layout = gather_.layout;
    const Range own = carried_.slice(gather_.rank, index);
    for (int distance = 1; distance < layout.hosts() && own.bytes() > 0; ++distance) {
      const int host = (host_ + distance) % layout.hosts();
      stage.outgoing.push_back({CarriedParts::carrier(layout, gather_.rank, host), piece(CarriedParts::kOwnPart, own)});
    }
    carried_.for_each_slice_in(local_, index, [&](int rank, const Range& theirs) {
      if (rank != gather_.rank && theirs.bytes() > 0) {
        stage.incoming.push_back({rank, piece(CarriedParts::list_of(local_), theirs)});
      }
    });
    stage.work = own.bytes() > 0 ? Work::carry_over : Work::none;
    stage.own = piece(CarriedParts::kOwnPart, own);
  }

  void in_host(std::size_t index, Stage& stage) const {
    const std::vector<int>& here = gather_.layout.ranks_of(host_);
    const auto count = static_cast<int>(here.size());
    for (int distance = 1; distance < count; ++distance) {
      const int other = (local_ + distance) % count;
      const int rank = here[static_cast<std::size_t>(other)];
      if (const Range own = carried_.slices(local_, index); own.bytes() > 0) {
        stage.outgoing.push_back({rank, piece(CarriedParts::list_of(local_), own)});
      }
      if (const Range theirs = carried_.slices(other, index); theirs.bytes() > 0) {
        stage.incoming.push_back({rank, piece(CarriedParts::list_of(other), theirs)});
      }
    }
  }

  const HostGather gather_;
  const CarriedParts carried_;
  const int host_;
  const int local_;
  const TwoPhaseOrder order_;
  const std::vector<int> none_;
};

}  // namespace

std::vector<GatherList> host_gather_lists(const HostGather& gather, const std::vector<GatherList>& parts) {
  const CarriedParts carried = carried_for(gather);
  std::vector<GatherList> lists = {parts[static_cast<std::size_t>(gather.rank)]};
  const std::size_t here = gather.layout.ranks_of(gather.layout.host_of(gather.rank)).size();
  for (int local = 0; local < static_cast<int>(here); ++local) {
    lists.push_back(carried.list(local, [&](GatherList& list, int rank, const Range& slice) {
      parts[static_cast<std::size_t>(rank)].for_each(
          slice.begin, slice.end,
          [&](const std::byte*, std::byte* to, std::size_t bytes, std::size_t) { list.append(to, to, bytes); });
    }));
  }
  return lists;
}

std::unique_ptr<Schedule> host_gather_schedule(HostGather gather) {
  return std::make_unique<HostGatherSchedule>(std::move(gather));
}

}  // namespace ronde::collectives
