// HostPhases: what the all-reduces in chunks between hosts, of several ranks mostly, have in common. The tensor is cut
// into chunks, each chunk into as many slices as there are rails. Rail j is the j-th rank of every host; there are as
// many as the smallest host has ranks, or one for small tensors, so that all slices are carried by all hosts. When each
// phase of a chunk comes is phase_timetable.h's; the partial sums of the chunks in its window are in scratch memory.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "collectives/schedule/phase_timetable.h"
#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule.h"
#include "collectives/slices.h"

namespace ronde::collectives {

class HostPhases : public Schedule {
 public:
  /// `timetable` makes one for a number of chunks.
  HostPhases(int rank, const RankLayout& layout, std::size_t bytes, std::size_t slice, std::size_t rails,
             const std::function<PhaseTimetable(std::size_t)>& timetable = PhaseTimetable::of_one_turn)
      : host_(layout.host_of(rank)),
        hosts_(layout.hosts()),
        local_(layout.local(rank)),
        rails_(static_cast<int>(rails)),
        locals_(layout.ranks_of(host_)),
        bytes_(bytes),
        chunks_(bytes, slice * rails),
        timetable_(timetable(chunks_.count)) {
    if (is_on_rail()) {
      for (int host = 0; host < hosts_; ++host) {
        rail_.push_back(layout.ranks_of(host)[static_cast<std::size_t>(local_)]);
      }
    }
  }

  std::size_t stages() const final { return timetable_.stages(); }
  bool keeps_what_it_sends() const final { return true; }
  std::size_t combinations() const override { return 2; }

 protected:
  static constexpr int kFromInputs = 0;
  static constexpr int kFromOutputs = 1;

  const PhaseTimetable& timetable() const { return timetable_; }
  bool is_on_rail() const { return local_ < rails_; }
  /// Ranks of this host that are on no rail.
  std::vector<int> off_rails() const { return std::vector<int>(locals_.begin() + rails_, locals_.end()); }

  Range slice(std::size_t chunk, int rail) const {
    const Range whole{std::min(chunk * chunks_.bytes_each, bytes_), std::min((chunk + 1) * chunks_.bytes_each, bytes_)};
    return slice_of(whole, rail, rails_);
  }
  Range own_slice(std::size_t chunk) const { return slice(chunk, local_); }

  std::size_t window_bytes() const { return std::min(timetable_.window(), chunks_.count) * slice_room(); }
  /// Where in scratch memory lies what of this rank's slice begins at `at`.
  std::size_t in_scratch(std::size_t chunk, std::size_t at) const {
    return chunk % timetable_.window() * slice_room() + (at - own_slice(chunk).begin);
  }

  /// Messages of the first chunk say that this rank is there.
  static bool is_sent(const Range& range, std::size_t chunk) { return range.bytes() > 0 || chunk == 0; }
  static Piece piece(int list, const Range& range) { return {list, range.begin, range.end}; }

  /// In an order of its own for each rank, so that not all send to one at a time.
  template <typename Visit>
  void for_each_other_local(Visit&& visit) const {
    const auto count = static_cast<int>(locals_.size());
    for (int distance = 1; distance < count; ++distance) {
      const int other = (local_ + distance) % count;
      visit(other, locals_[static_cast<std::size_t>(other)]);
    }
  }

  /// Every rank sends its slices to the host's rails.
  void gather_in_host(std::size_t chunk, Stage& stage) const {
    const Range own = own_slice(chunk);
    for_each_other_local([&](int other, int rank) {
      if (other < rails_ && is_sent(slice(chunk, other), chunk)) {
        stage.outgoing.push_back({rank, piece(kFromInputs, slice(chunk, other))});
      }
      if (is_on_rail() && is_sent(own, chunk)) {
        stage.incoming.push_back({rank, piece(kKept, own)});
      }
    });
  }
  /// The rails reduce what they have gathered.
  void reduce_in_host(std::size_t chunk, Stage& stage) const {
    if (const Range own = own_slice(chunk); is_on_rail() && own.bytes() > 0) {
      stage.work = Work::reduce_to_scratch;
      stage.own = piece(kFromInputs, own);
      stage.scratch = in_scratch(chunk, own.begin);
    }
  }
  /// Every rank on a rail sends its slice to the others of the host. The others on rails get no message without bytes:
  /// each knows from its own rail that all ranks are there.
  void share_in_host(std::size_t chunk, Stage& stage) const {
    const auto is_told = [&](const Range& range, bool is_rail) {
      return range.bytes() > 0 || (chunk == 0 && !is_rail);
    };
    for_each_other_local([&](int other, int rank) {
      if (is_on_rail() && is_told(own_slice(chunk), other < rails_)) {
        stage.outgoing.push_back({rank, piece(kFromOutputs, own_slice(chunk))});
      }
      if (other < rails_ && is_told(slice(chunk, other), is_on_rail())) {
        stage.incoming.push_back({rank, piece(kFromOutputs, slice(chunk, other))});
      }
    });
  }

  const int host_;
  const int hosts_;
  const int local_;
  const int rails_;
  const std::vector<int> locals_;  ///< of this host, in order
  std::vector<int> rail_;          ///< of this rank, by host; empty if it is on none

 private:
  std::size_t slice_room() const {
    return slice_of({0, chunks_.bytes_each}, 0, rails_).bytes();  // the first is the largest
  }

  const std::size_t bytes_;
  const Chunks chunks_;
  const PhaseTimetable timetable_;
};

}  // namespace ronde::collectives
