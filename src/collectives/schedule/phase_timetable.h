// PhaseTimetable: when each phase of each chunk comes in an all-reduce between hosts. One phase of one chunk is a
// stage.
//
// Lags. A phase of a chunk comes some steps after the first one, in each step a chunk begins. So the phases of as many
// chunks as the lags say are under way at the same time: hosts compute while the wire carries, and the wire has
// something to carry while a host is late.
//
// Window. Partial sums of some chunks are kept at a time. They are needed until all that was made of them has come, in
// the phase `last_needed`; the first phase of a chunk takes the place of the chunk window() before it, for which that
// phase is over.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace ronde::collectives {

class PhaseTimetable {
 public:
  struct At {
    std::size_t phase;
    std::size_t chunk;
  };

  /// Of an all-reduce between hosts in one turn (hierarchical_schedule.h): chunk c is in phase 0 while chunk c-1 is in
  /// phase 1, c-5 in 2 and c-6 in 3. What hosts have sent each other of four chunks may be on its way before the first
  /// of them must be there.
  static PhaseTimetable of_one_turn(std::size_t chunks) { return {chunks, {0, 1, 5, 6}, 2}; }

  /// Of so many phases that are mostly turns between hosts: a phase a step, or where there are many of them, as in a
  /// ring, several in one, so that no more than some chunks are under way.
  static PhaseTimetable of_turns(std::size_t chunks, std::size_t phases, std::size_t last_needed) {
    constexpr std::size_t kMostUnderWay = 16;
    const std::size_t in_a_step = (last_needed + kMostUnderWay - 1) / kMostUnderWay;
    std::vector<std::size_t> lags;
    for (std::size_t phase = 0; phase < phases; ++phase) {
      lags.push_back(phase / in_a_step);
    }
    return {chunks, std::move(lags), last_needed};
  }

  /// `lags`: by phase, in steps, from 0 on and never falling.
  PhaseTimetable(std::size_t chunks, std::vector<std::size_t> lags, std::size_t last_needed)
      : lags_(std::move(lags)),
        last_needed_(last_needed),
        stage_of_(lags_.size(), std::vector<std::size_t>(chunks)) {
    for (std::size_t step = 0; chunks > 0 && step < chunks + lags_.back(); ++step) {
      for (std::size_t phase = 0; phase < lags_.size(); ++phase) {
        if (step >= lags_[phase] && step - lags_[phase] < chunks) {
          stage_of_[phase][step - lags_[phase]] = order_.size();
          order_.push_back({phase, step - lags_[phase]});
        }
      }
    }
  }

  std::size_t stages() const { return order_.size(); }
  std::size_t phases() const { return lags_.size(); }
  /// Of how many chunks partial sums are kept.
  std::size_t window() const { return lags_[last_needed_] + 1; }
  At at(std::size_t stage) const { return order_[stage]; }
  std::size_t stage_of(std::size_t phase, std::size_t chunk) const { return stage_of_[phase][chunk]; }

  /// After how many stages what begins a chunk may be sent.
  std::size_t after_window(std::size_t chunk) const {
    return chunk < window() ? 0 : stage_of_[last_needed_][chunk - window()] + 1;
  }
  /// The same of what needs the phase before.
  std::size_t after_phase_before(std::size_t phase, std::size_t chunk) const { return stage_of_[phase - 1][chunk] + 1; }

 private:
  std::vector<std::size_t> lags_;
  std::size_t last_needed_;
  std::vector<At> order_;                           ///< by stage
  std::vector<std::vector<std::size_t>> stage_of_;  ///< by phase and chunk
};

}  // namespace ronde::collectives
