#include "collectives/schedule/host_gather_schedule.h"

#include <algorithm>
#include <utility>

#include "collectives/schedule/two_phase_order.h"
#include "collectives/slices.h"

namespace ronde::collectives {

namespace {

/// A message of less costs as much as one of so many bytes.
constexpr std::size_t kLeastSlice = std::size_t{16} << 10;

/// List 0 is this rank's own part; behind it comes a list for each rank of its host, of what that one carries: slice
/// after slice, of each the parts in the order of ranks.
constexpr int kOwn = 0;

int list_of(int local) { return 1 + local; }

/// What the ranks of a host carry.
class Carried {
 public:
  explicit Carried(const HostGather& gather) : gather_(gather) {
    const RankLayout& layout = gather.layout;
    const std::vector<int>& here = layout.ranks_of(layout.host_of(gather.rank));
    parts_.resize(here.size());
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      parts_[static_cast<std::size_t>(layout.local(rank)) % here.size()].push_back(rank);
    }
  }

  /// Ranks whose parts it carries, in order.
  const std::vector<int>& parts(int local) const { return parts_[static_cast<std::size_t>(local)]; }
  /// Of a rank's part.
  Range slice(int rank, std::size_t index) const { return {before(rank, index), before(rank, index + 1)}; }
  /// In the list of what a rank of the host carries.
  Range slices(int local, std::size_t index) const {
    Range all;
    for (const int rank : parts(local)) {
      all.begin += before(rank, index);
      all.end += before(rank, index + 1);
    }
    return all;
  }
  /// Calls visit(rank, range) for each of the parts in it.
  template <typename Visit>
  void for_each_slice_in(int local, std::size_t index, Visit&& visit) const {
    std::size_t begin = slices(local, index).begin;
    for (const int rank : parts(local)) {
      const std::size_t end = begin + slice(rank, index).bytes();
      visit(rank, Range{begin, end});
      begin = end;
    }
  }
  std::size_t count() const {
    const std::size_t longest = *std::max_element(gather_.bytes.begin(), gather_.bytes.end());
    return (longest + gather_.slice - 1) / gather_.slice;
  }

 private:
  /// Bytes of a rank's part in the slices before this one.
  std::size_t before(int rank, std::size_t index) const {
    return std::min(index * gather_.slice, gather_.bytes[static_cast<std::size_t>(rank)]);
  }

  const HostGather& gather_;
  std::vector<std::vector<int>> parts_;  ///< by place on the host
};

Piece piece(int list, const Range& range) { return {list, range.begin, range.end}; }

class HostGatherSchedule final : public Schedule {
 public:
  explicit HostGatherSchedule(HostGather gather)
      : gather_(std::move(gather)),
        carried_(gather_),
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
  /// Beginning with a different one on each host, so that not all send to one at a time.
  void between_hosts(std::size_t index, Stage& stage) const {
    const RankLayout& layout = gather_.layout;
    const Range own = carried_.slice(gather_.rank, index);
    for (int distance = 1; distance < layout.hosts() && own.bytes() > 0; ++distance) {
      const std::vector<int>& there = layout.ranks_of((host_ + distance) % layout.hosts());
      stage.outgoing.push_back({there[static_cast<std::size_t>(local_) % there.size()], piece(kOwn, own)});
    }
    carried_.for_each_slice_in(local_, index, [&](int rank, const Range& theirs) {
      if (rank != gather_.rank && theirs.bytes() > 0) {
        stage.incoming.push_back({rank, piece(list_of(local_), theirs)});
      }
    });
    stage.work = own.bytes() > 0 ? Work::carry_over : Work::none;
    stage.own = piece(kOwn, own);
  }

  void in_host(std::size_t index, Stage& stage) const {
    const std::vector<int>& here = gather_.layout.ranks_of(host_);
    const auto count = static_cast<int>(here.size());
    for (int distance = 1; distance < count; ++distance) {
      const int other = (local_ + distance) % count;
      const int rank = here[static_cast<std::size_t>(other)];
      if (const Range own = carried_.slices(local_, index); own.bytes() > 0) {
        stage.outgoing.push_back({rank, piece(list_of(local_), own)});
      }
      if (const Range theirs = carried_.slices(other, index); theirs.bytes() > 0) {
        stage.incoming.push_back({rank, piece(list_of(other), theirs)});
      }
    }
  }

  const HostGather gather_;
  const Carried carried_;
  const int host_;
  const int local_;
  const TwoPhaseOrder order_;
  const std::vector<int> none_;
};

}  // namespace

std::vector<GatherList> host_gather_lists(const HostGather& gather, const std::vector<GatherList>& parts) {
  const Carried carried(gather);
  std::vector<GatherList> lists = {parts[static_cast<std::size_t>(gather.rank)]};
  const std::size_t here = gather.layout.ranks_of(gather.layout.host_of(gather.rank)).size();
  for (int local = 0; local < static_cast<int>(here); ++local) {
    GatherList& list = lists.emplace_back();
    for (std::size_t index = 0; index < carried.count(); ++index) {
      for (const int rank : carried.parts(local)) {
        const Range slice = carried.slice(rank, index);
        parts[static_cast<std::size_t>(rank)].for_each(
            slice.begin, slice.end,
            [&](const std::byte*, std::byte* to, std::size_t bytes, std::size_t) { list.append(to, to, bytes); });
      }
    }
  }
  return lists;
}

std::unique_ptr<Schedule> host_gather_schedule(HostGather gather) {
  return std::make_unique<HostGatherSchedule>(std::move(gather));
}

std::size_t host_gather_slice(const RankLayout& layout, std::size_t most) {
  const std::size_t parts =
      (static_cast<std::size_t>(layout.hosts()) * layout.most() + layout.fewest() - 1) / layout.fewest();
  return std::min(most, std::max(kLeastSlice, round_up_to_line(most / parts)));
}

}  // namespace ronde::collectives
