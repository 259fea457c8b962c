// HostPhases: what the all-reduces between hosts of several ranks have in common. The tensor is cut into chunks, each
// chunk into as many slices as there are rails. Rail j is the j-th rank of every host; there are as many as the
// smallest host has ranks, or one for small tensors, so that all slices are carried by all hosts. A chunk goes through
// four phases, of which the first and the last are in hosts, the others between them.
//
// Pipeline. Chunk c is in phase 0 while chunk c-1 is in phase 1, c-5 in 2 and c-6 in 3, so that hosts and wire work at
// the same time, and the wire has four chunks to carry while hosts are late. Some chunks' partial sums are in scratch:
// what phase 1 of a chunk has sent has been received once phase 2 of that chunk has come.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule.h"
#include "collectives/slices.h"

namespace ronde::collectives {

class HostPhases : public Schedule {
 public:
  HostPhases(int rank, const RankLayout& layout, std::size_t bytes, std::size_t slice, std::size_t rails)
      : host_(layout.host_of(rank)),
        hosts_(layout.hosts()),
        local_(layout.local(rank)),
        rails_(static_cast<int>(rails)),
        locals_(layout.ranks_of(host_)),
        bytes_(bytes),
        chunks_(bytes, slice * rails) {
    if (is_on_rail()) {
      for (int host = 0; host < hosts_; ++host) {
        rail_.push_back(layout.ranks_of(host)[static_cast<std::size_t>(local_)]);
      }
    }
    for (auto& of_phase : stage_of_) {
      of_phase.resize(chunks_.count);
    }
    for (std::size_t step = 0; step < chunks_.count + kLag.back(); ++step) {
      for (std::size_t phase = 0; phase < kPhases; ++phase) {
        if (step >= kLag[phase] && step - kLag[phase] < chunks_.count) {
          stage_of_[phase][step - kLag[phase]] = order_.size();
          order_.push_back({phase, step - kLag[phase]});
        }
      }
    }
  }

  std::size_t stages() const final { return order_.size(); }
  bool keeps_what_it_sends() const final { return true; }
  std::size_t combinations() const final { return 2; }

 protected:
  static constexpr int kFromInputs = 0;
  static constexpr int kFromOutputs = 1;

  struct At {
    std::size_t phase;
    std::size_t chunk;
  };

  At at(std::size_t stage) const { return order_[stage]; }
  std::size_t stage_of(std::size_t phase, std::size_t chunk) const { return stage_of_[phase][chunk]; }
  bool is_on_rail() const { return local_ < rails_; }
  /// Ranks of this host that are on no rail.
  std::vector<int> off_rails() const { return std::vector<int>(locals_.begin() + rails_, locals_.end()); }

  /// After how many stages what begins a chunk may be sent.
  std::size_t after_window(std::size_t chunk) const { return chunk < kWindow ? 0 : stage_of_[2][chunk - kWindow] + 1; }
  /// The same of what needs the phase before.
  std::size_t after_phase_before(std::size_t phase, std::size_t chunk) const { return stage_of_[phase - 1][chunk] + 1; }

  Range slice(std::size_t chunk, int rail) const {
    const Range whole{std::min(chunk * chunks_.bytes_each, bytes_), std::min((chunk + 1) * chunks_.bytes_each, bytes_)};
    return slice_of(whole, rail, rails_);
  }
  Range own_slice(std::size_t chunk) const { return slice(chunk, local_); }

  std::size_t window_bytes() const { return std::min(kWindow, chunks_.count) * slice_room(); }
  /// Where in scratch memory lies what of this rank's slice begins at `at`.
  std::size_t in_scratch(std::size_t chunk, std::size_t at) const {
    return chunk % kWindow * slice_room() + (at - own_slice(chunk).begin);
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
  static constexpr std::size_t kPhases = 4;
  /// By how many steps each phase of a chunk comes after its first: what hosts have sent each other of so many chunks
  /// may be on its way before the first of them must be there.
  static constexpr std::array<std::size_t, kPhases> kLag = {0, 1, 5, 6};
  /// Chunks whose partial sums are in scratch memory: the first phase of a chunk needs the place of one whose third is
  /// over.
  static constexpr std::size_t kWindow = kLag[2] + 1;

  std::size_t slice_room() const {
    return slice_of({0, chunks_.bytes_each}, 0, rails_).bytes();  // the first is the largest
  }

  const std::size_t bytes_;
  const Chunks chunks_;
  std::vector<At> order_;                                   ///< by stage
  std::array<std::vector<std::size_t>, kPhases> stage_of_;  ///< by phase and chunk
};

}  // namespace ronde::collectives
