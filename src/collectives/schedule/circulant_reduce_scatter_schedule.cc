#include "collectives/schedule/circulant_reduce_scatter_schedule.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/schedule/carried_ring.h"
#include "collectives/schedule/carried_stages.h"
#include "collectives/schedule/phase_timetable.h"

namespace ronde::collectives {

namespace {

class CirculantReduceScatterSchedule final : public Schedule {
 public:
  CirculantReduceScatterSchedule(HostParts all, CirculantTurns turns)
      : all_(std::move(all)),
        turns_(std::move(turns)),
        carried_(all_),
        ring_(all_, carried_),
        here_(all_.layout.ranks_of(all_.layout.host_of(all_.rank))),
        local_(all_.layout.local(all_.rank)),
        timetable_(PhaseTimetable::of_turns(carried_.count(), turns_.count() + 1, turns_.count())),
        last_{all_.rank},
        two_(2, all_.rank) {
    for (const CirculantTurns::Message& each : turns_.turn(0)) {
      last_.push_back(ring_.before(each.distance));
    }
  }

  std::size_t stages() const override { return timetable_.stages(); }
  std::size_t combinations() const override { return 3; }
  const std::vector<int>& inputs(std::size_t combination) const override {
    return combination == 0 ? here_ : combination == 1 ? last_ : two_;
  }
  /// Partial sums of the chunks in the window. They are copied as they are sent, so what was sent may be written over.
  std::size_t scratch_bytes() const override {
    return std::min(timetable_.window(), carried_.count()) * place_bytes();
  }

  void describe(std::size_t index, Stage& stage) const override {
    const auto [phase, chunk] = timetable_.at(index);
    if (phase == 0) {
      stage.after = timetable_.after_window(chunk);
      reduce_carried(all_, carried_, chunk, place(chunk), stage);
    } else {
      stage.after = timetable_.after_phase_before(phase, chunk);
      scatter(turns_.count() - phase, chunk, stage);
    }
  }

 private:
  std::size_t place_bytes() const { return carried_.slices(local_, 0).bytes(); }  // the first is the largest
  std::size_t place(std::size_t index) const { return index % timetable_.window() * place_bytes(); }

  void scatter(std::size_t turn, std::size_t index, Stage& stage) const {
    const bool is_last = turn == 0;
    for (const CirculantTurns::Message& each : turns_.turn(turn)) {
      const RingPieces sent = ring_.parts(index, each.first, each.count, kScratch, place(index));
      if (sent.bytes() > 0) {
        stage.outgoing.push_back({ring_.after(each.distance), sent.first, sent.rest});
      }
      const RingPieces added = ring_.parts(index, each.first - each.distance, each.count, kScratch, place(index));
      if (added.bytes() == 0) {
        continue;
      }
      stage.incoming.push_back({ring_.before(each.distance), {kKept, 0, added.bytes()}});
      if (!is_last) {
        stage.work = Work::add_to_scratch;
        stage.combination = 2;
        stage.own = {kScratch, 0, stage.own.bytes() + added.bytes()};
        stage.added.push_back({ring_.before(each.distance), added.first, added.rest});
      }
    }
    if (const Range own = carried_.slice(all_.rank, index); is_last && own.bytes() > 0) {
      stage.work = Work::reduce_from_scratch;
      stage.combination = 1;
      stage.own = {CarriedParts::kOwnPart, own.begin, own.end};
      stage.scratch = ring_.parts(index, 0, 1, kScratch, place(index)).first.begin;
    }
  }

  const HostParts all_;
  const CirculantTurns turns_;
  const CarriedParts carried_;
  const CarriedRing ring_;
  const std::vector<int>& here_;
  const int local_;
  const PhaseTimetable timetable_;
  std::vector<int> last_;  ///< this rank, and those whose partial sums of its part it hears in the last turn
  const std::vector<int> two_;
};

}  // namespace

std::unique_ptr<Schedule> circulant_reduce_scatter_schedule(HostParts all, CirculantTurns turns) {
  return std::make_unique<CirculantReduceScatterSchedule>(std::move(all), std::move(turns));
}

}  // namespace ronde::collectives
