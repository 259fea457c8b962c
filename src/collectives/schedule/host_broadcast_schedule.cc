#include "collectives/schedule/host_broadcast_schedule.h"

#include <algorithm>

#include "collectives/schedule/phase_timetable.h"
#include "collectives/slices.h"

namespace ronde::collectives {

namespace {

class HostBroadcastSchedule final : public Schedule {
 public:
  HostBroadcastSchedule(int rank, const RankLayout& layout, int root, std::size_t bytes, std::size_t slice)
      : layout_(layout),
        rank_(rank),
        root_(root),
        host_(layout.host_of(rank)),
        local_(layout.local(rank)),
        rails_(static_cast<int>(layout.fewest())),
        bytes_(bytes),
        chunks_(bytes, slice * layout.fewest()),
        timetable_(PhaseTimetable::of_one_turn(chunks_.count)) {}

  std::size_t stages() const override { return timetable_.stages(); }
  bool keeps_what_it_sends() const override { return true; }
  const std::vector<int>& inputs(std::size_t) const override { return none_; }

  void describe(std::size_t index, Stage& stage) const override {
    const auto [phase, chunk] = timetable_.at(index);
    stage.after = phase == 0 ? timetable_.after_window(chunk) : timetable_.after_phase_before(phase, chunk);
    switch (phase) {
      case 0: give_to_rails(chunk, stage); break;
      case 1: scatter_to_hosts(chunk, stage); break;
      case 2: share_between_hosts(chunk, stage); break;
      default: share_in_host(chunk, stage); break;
    }
  }

 private:
  static constexpr int kInputs = 0;
  static constexpr int kOutputs = 1;

  static Piece piece(int list, const Range& range) { return {list, range.begin, range.end}; }

  bool is_root() const { return rank_ == root_; }
  bool is_roots_host() const { return host_ == layout_.host_of(root_); }
  bool is_on_rail() const { return local_ < rails_; }
  /// Where this rank has what it passes on.
  int source() const { return is_root() ? kInputs : kOutputs; }

  Range whole(std::size_t chunk) const {
    return {std::min(chunk * chunks_.bytes_each, bytes_), std::min((chunk + 1) * chunks_.bytes_each, bytes_)};
  }
  Range slice(std::size_t chunk, int rail) const { return slice_of(whole(chunk), rail, rails_); }
  /// Of the slice of this rank's rail, what the root's host sends to another.
  Range part(std::size_t chunk, int host) const {
    const int index = host < layout_.host_of(root_) ? host : host - 1;
    return slice_of(slice(chunk, local_), index, layout_.hosts() - 1);
  }

  /// The rank of this rail on each other host but the root's, beginning with a different one on each host.
  template <typename Visit>
  void for_each_other_host(Visit&& visit) const {
    for (int distance = 1; distance < layout_.hosts(); ++distance) {
      const int host = (host_ + distance) % layout_.hosts();
      if (host != layout_.host_of(root_)) {
        visit(host, layout_.ranks_of(host)[static_cast<std::size_t>(local_)]);
      }
    }
  }

  void give_to_rails(std::size_t chunk, Stage& stage) const {
    if (!is_roots_host()) {
      return;
    }
    if (!is_root()) {
      if (const Range own = slice(chunk, local_); is_on_rail() && own.bytes() > 0) {
        stage.incoming.push_back({root_, piece(kOutputs, own)});
      }
      return;
    }
    const std::vector<int>& here = layout_.ranks_of(host_);
    for (int rail = 0; rail < rails_; ++rail) {
      const int rank = here[static_cast<std::size_t>(rail)];
      if (const Range theirs = slice(chunk, rail); rank != root_ && theirs.bytes() > 0) {
        stage.outgoing.push_back({rank, piece(kInputs, theirs)});
      }
    }
    stage.work = Work::carry_over;
    stage.own = piece(kInputs, whole(chunk));
  }

  void scatter_to_hosts(std::size_t chunk, Stage& stage) const {
    if (!is_on_rail()) {
      return;
    }
    if (!is_roots_host()) {
      const int from = layout_.ranks_of(layout_.host_of(root_))[static_cast<std::size_t>(local_)];
      if (const Range own = part(chunk, host_); own.bytes() > 0) {
        stage.incoming.push_back({from, piece(kOutputs, own)});
      }
      return;
    }
    for_each_other_host([&](int host, int rank) {
      if (const Range theirs = part(chunk, host); theirs.bytes() > 0) {
        stage.outgoing.push_back({rank, piece(source(), theirs)});
      }
    });
  }

  void share_between_hosts(std::size_t chunk, Stage& stage) const {
    if (!is_on_rail() || is_roots_host()) {
      return;
    }
    const Range own = part(chunk, host_);
    for_each_other_host([&](int host, int rank) {
      if (own.bytes() > 0) {
        stage.outgoing.push_back({rank, piece(kOutputs, own)});
      }
      if (const Range theirs = part(chunk, host); theirs.bytes() > 0) {
        stage.incoming.push_back({rank, piece(kOutputs, theirs)});
      }
    });
  }

  void share_in_host(std::size_t chunk, Stage& stage) const {
    const std::vector<int>& here = layout_.ranks_of(host_);
    const auto count = static_cast<int>(here.size());
    for (int distance = 1; distance < count; ++distance) {
      const int other = (local_ + distance) % count;
      const int rank = here[static_cast<std::size_t>(other)];
      if (const Range own = slice(chunk, local_); is_on_rail() && rank != root_ && own.bytes() > 0) {
        stage.outgoing.push_back({rank, piece(source(), own)});
      }
      if (const Range theirs = slice(chunk, other); other < rails_ && !is_root() && theirs.bytes() > 0) {
        stage.incoming.push_back({rank, piece(kOutputs, theirs)});
      }
    }
  }

  const RankLayout layout_;
  const int rank_;
  const int root_;
  const int host_;
  const int local_;
  const int rails_;
  const std::size_t bytes_;
  const Chunks chunks_;
  const PhaseTimetable timetable_;
  const std::vector<int> none_;
};

}  // namespace

std::unique_ptr<Schedule> host_broadcast_schedule(int rank, const RankLayout& layout, int root, std::size_t bytes,
                                                  std::size_t slice) {
  return std::make_unique<HostBroadcastSchedule>(rank, layout, root, bytes, slice);
}

}  // namespace ronde::collectives
