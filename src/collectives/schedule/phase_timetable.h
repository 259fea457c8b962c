// PhaseTimetable: when each phase of each chunk comes in an all-reduce between hosts (host_phases.h). A chunk goes
// through four phases, of which the first and the last are in hosts, the others between them. One phase of one chunk is
// a stage.
//
// Pipeline. Chunk c is in phase 0 while chunk c-1 is in phase 1, c-5 in 2 and c-6 in 3, so that hosts and wire work at
// the same time, and the wire has four chunks to carry while hosts are late.
//
// Window. Partial sums of some chunks are kept at a time: what phase 1 of a chunk has sent has been received once phase
// 2 of that chunk has come. So phase 0 of a chunk takes the place of the chunk kWindow before it, whose phase 2 is
// over.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace ronde::collectives {

class PhaseTimetable {
 public:
  static constexpr std::size_t kPhases = 4;
  /// By how many steps each phase of a chunk comes after its first: what hosts have sent each other of so many chunks
  /// may be on its way before the first of them must be there.
  static constexpr std::array<std::size_t, kPhases> kLag = {0, 1, 5, 6};
  /// Chunks whose partial sums are kept: the first phase of a chunk needs the place of one whose third is over.
  static constexpr std::size_t kWindow = kLag[2] + 1;

  struct At {
    std::size_t phase;
    std::size_t chunk;
  };

  explicit PhaseTimetable(std::size_t chunks) {
    for (auto& of_phase : stage_of_) {
      of_phase.resize(chunks);
    }
    for (std::size_t step = 0; step < chunks + kLag.back(); ++step) {
      for (std::size_t phase = 0; phase < kPhases; ++phase) {
        if (step >= kLag[phase] && step - kLag[phase] < chunks) {
          stage_of_[phase][step - kLag[phase]] = order_.size();
          order_.push_back({phase, step - kLag[phase]});
        }
      }
    }
  }

  std::size_t stages() const { return order_.size(); }
  At at(std::size_t stage) const { return order_[stage]; }
  std::size_t stage_of(std::size_t phase, std::size_t chunk) const { return stage_of_[phase][chunk]; }

  /// After how many stages what begins a chunk may be sent.
  std::size_t after_window(std::size_t chunk) const { return chunk < kWindow ? 0 : stage_of_[2][chunk - kWindow] + 1; }
  /// The same of what needs the phase before.
  std::size_t after_phase_before(std::size_t phase, std::size_t chunk) const { return stage_of_[phase - 1][chunk] + 1; }

 private:
  std::vector<At> order_;                                   ///< by stage
  std::array<std::vector<std::size_t>, kPhases> stage_of_;  ///< by phase and chunk
};

}  // namespace ronde::collectives
