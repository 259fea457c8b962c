#include "collectives/schedule/host_reduce_scatter_schedule.h"

#include <algorithm>
#include <utility>

#include "collectives/schedule/carried_parts.h"
#include "collectives/schedule/carried_stages.h"
#include "collectives/schedule/two_phase_order.h"

namespace ronde::collectives {

namespace {

class HostReduceScatterSchedule final : public Schedule {
 public:
  explicit HostReduceScatterSchedule(HostParts all)
      : all_(std::move(all)),
        carried_(all_),
        host_(all_.layout.host_of(all_.rank)),
        local_(all_.layout.local(all_.rank)),
        order_(carried_.count()) {
    for (int host = 0; host < all_.layout.hosts(); ++host) {
      carriers_.push_back(CarriedParts::carrier(all_.layout, all_.rank, host));
    }
  }

  std::size_t stages() const override { return order_.stages(); }
  std::size_t combinations() const override { return 2; }
  const std::vector<int>& inputs(std::size_t combination) const override {
    return combination == 0 ? all_.layout.ranks_of(host_) : carriers_;
  }
  /// Partial results of the slices that are between their two phases. They are copied as they are sent, and a stage's
  /// work is done when those before it are over: so the first phase of a slice takes the place of the one that many
  /// before it.
  std::size_t scratch_bytes() const override {
    return std::min(TwoPhaseOrder::kAhead, carried_.count()) * place_bytes();
  }

  void describe(std::size_t index, Stage& stage) const override {
    const TwoPhaseOrder::At at = order_.at(index);
    stage.after = at.after;
    at.is_first ? reduce_carried(all_, carried_, at.chunk, place(at.chunk), stage) : between_hosts(at.chunk, stage);
  }

 private:
  static Piece piece(int list, const Range& range) { return {list, range.begin, range.end}; }

  std::size_t place_bytes() const { return carried_.slices(local_, 0).bytes(); }  // the first is the largest
  std::size_t place(std::size_t index) const { return index % TwoPhaseOrder::kAhead * place_bytes(); }

  void between_hosts(std::size_t index, Stage& stage) const {
    const std::size_t begin = carried_.slices(local_, index).begin;
    carried_.for_each_slice_in(local_, index, [&](int rank, const Range& slice) {
      const std::size_t at = place(index) + slice.begin - begin;
      if (slice.bytes() == 0) {
        return;
      }
      if (rank != all_.rank) {
        stage.outgoing.push_back({rank, {kScratch, at, at + slice.bytes()}});
        return;
      }
      const Range own = carried_.slice(rank, index);
      for (const int carrier : carriers_) {
        if (carrier != rank) {
          stage.incoming.push_back({carrier, piece(kKept, own)});
        }
      }
      stage.work = Work::reduce_from_scratch;
      stage.combination = 1;
      stage.own = piece(CarriedParts::kOwnPart, own);
      stage.scratch = at;
    });
    // Those behind this rank first, in turn, so that not all send to one at a time.
    const auto behind = std::find_if(stage.outgoing.begin(), stage.outgoing.end(),
                                     [&](const Outgoing& each) { return each.to > all_.rank; });
    std::rotate(stage.outgoing.begin(), behind, stage.outgoing.end());
  }

  const HostParts all_;
  const CarriedParts carried_;
  const int host_;
  const int local_;
  const TwoPhaseOrder order_;
  std::vector<int> carriers_;  ///< of this rank's part, by host
};

}  // namespace

std::vector<GatherList> host_reduce_scatter_lists(const HostParts& all, GatherList own,
                                                  const std::vector<GatherList>& inputs) {
  std::vector<GatherList> lists = CarriedParts(all).lists([&](GatherList& list, int rank, const Range& slice) {
    inputs[static_cast<std::size_t>(rank)].for_each(
        slice.begin, slice.end, [&](const std::byte* from, std::byte*, std::size_t bytes, std::size_t) {
          list.append(from, const_cast<std::byte*>(from), bytes);  // nothing is written there
        });
  });
  lists.insert(lists.begin(), std::move(own));
  return lists;
}

std::unique_ptr<Schedule> host_reduce_scatter_schedule(HostParts all) {
  return std::make_unique<HostReduceScatterSchedule>(std::move(all));
}

}  // namespace ronde::collectives
