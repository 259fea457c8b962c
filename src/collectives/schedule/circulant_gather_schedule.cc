#include "collectives/schedule/circulant_gather_schedule.h"

#include <utility>
#include <vector>

#include "collectives/schedule/carried_ring.h"
#include "collectives/schedule/carried_stages.h"
#include "collectives/schedule/phase_timetable.h"

namespace ronde::collectives {

namespace {

class CirculantGatherSchedule final : public Schedule {
 public:
  CirculantGatherSchedule(HostParts all, CirculantTurns turns)
      : all_(std::move(all)),
        turns_(std::move(turns)),
        carried_(all_),
        ring_(all_, carried_),
        local_(all_.layout.local(all_.rank)),
        timetable_(PhaseTimetable::of_turns(carried_.count(), turns_.count() + 2, turns_.count() + 1)) {}

  std::size_t stages() const override { return timetable_.stages(); }
  bool keeps_what_it_sends() const override { return true; }
  /// Each place is written once, and read only afterwards.
  std::size_t written_ahead() const override { return timetable_.phases(); }
  const std::vector<int>& inputs(std::size_t) const override { return none_; }

  void describe(std::size_t index, Stage& stage) const override {
    const auto [phase, chunk] = timetable_.at(index);
    stage.after = phase == 0 ? timetable_.after_window(chunk) : timetable_.after_phase_before(phase, chunk);
    if (phase == 0) {
      put_down(chunk, stage);
    } else if (phase <= turns_.count()) {
      between_hosts(phase - 1, chunk, stage);
    } else {
      share_carried(all_, carried_, chunk, stage);
    }
  }

 private:
  void put_down(std::size_t index, Stage& stage) const {
    if (const Range own = carried_.slice(all_.rank, index); own.bytes() > 0) {
      stage.work = Work::carry_over;
      stage.own = {CarriedParts::kOwnPart, own.begin, own.end};
    }
  }

  void between_hosts(std::size_t turn, std::size_t index, Stage& stage) const {
    const int list = CarriedParts::list_of(local_);
    const std::size_t base = carried_.slices(local_, index).begin;
    for (const CirculantTurns::Message& each : turns_.turn(turn)) {
      const RingPieces sent = ring_.parts(index, each.first - each.distance, each.count, list, base);
      if (sent.bytes() > 0) {
        stage.outgoing.push_back({ring_.before(each.distance), sent.first, sent.rest});
      }
      const RingPieces received = ring_.parts(index, each.first, each.count, list, base);
      if (received.bytes() > 0) {
        stage.incoming.push_back({ring_.after(each.distance), received.first, received.rest});
      }
    }
  }

  const HostParts all_;
  const CirculantTurns turns_;
  const CarriedParts carried_;
  const CarriedRing ring_;
  const int local_;
  const PhaseTimetable timetable_;
  const std::vector<int> none_;
};

}  // namespace

std::unique_ptr<Schedule> circulant_gather_schedule(HostParts all, CirculantTurns turns) {
  return std::make_unique<CirculantGatherSchedule>(std::move(all), std::move(turns));
}

}  // namespace ronde::collectives
