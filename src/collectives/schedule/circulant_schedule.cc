#include "collectives/schedule/circulant_schedule.h"

#include <utility>

#include "collectives/schedule/balanced_slice.h"
#include "collectives/schedule/host_phases.h"
#include "collectives/schedule/ring_pieces.h"

namespace ronde::collectives {

namespace {

/// The partial sums of a whole window (phase_timetable.h), up to 17 chunks, are in memory.
constexpr std::size_t kMostSliceInTurns = std::size_t{1} << 20;

class CirculantSchedule final : public HostPhases {
 public:
  CirculantSchedule(int rank, const RankLayout& layout, std::size_t bytes, std::size_t slice, std::size_t rails,
                    const CirculantTurns& turns, bool sends_inputs)
      : HostPhases(rank, layout, bytes, slice, rails,
                   [&](std::size_t chunks) {
                     return PhaseTimetable::of_turns(chunks, 2 * turns.count() + 2, 2 * turns.count());
                   }),
        turns_(turns),
        sends_inputs_(sends_inputs),
        two_(is_on_rail() ? 2 : 0, rank) {
    if (is_on_rail()) {
      last_.push_back(rank);
      for (const CirculantTurns::Message& each : turns_.turn(0)) {
        last_.push_back(before(each.distance));
      }
    }
  }

  std::size_t combinations() const override { return 3; }
  const std::vector<int>& inputs(std::size_t combination) const override {
    return !is_on_rail() || combination == 2 ? two_ : combination == 1 ? last_ : locals_;
  }
  std::size_t scratch_bytes() const override { return is_on_rail() ? window_bytes() : 0; }
  std::size_t written_ahead() const override { return timetable().phases(); }
  std::size_t hears_all_by() const override {
    return timetable().stage_of(is_on_rail() ? turns_.count() : of_sharing(), 0) + 1;
  }
  std::size_t telling_stage() const override { return timetable().stage_of(of_sharing(), 0); }
  std::vector<int> told() const override { return is_on_rail() ? off_rails() : std::vector<int>(); }

  void describe(std::size_t index, Stage& stage) const override {
    const auto [phase, chunk] = timetable().at(index);
    stage.after = phase == 0 ? timetable().after_window(chunk) : timetable().after_phase_before(phase, chunk);
    if (phase == 0 && sends_inputs_) {
      keep(chunk, stage);
    } else if (phase == 0) {
      gather_in_host(chunk, stage);
      reduce_in_host(chunk, stage);
    } else if (phase == of_sharing()) {
      share_in_host(chunk, stage);
    } else if (!is_on_rail()) {
      return;
    } else if (phase <= turns_.count()) {
      scatter(turns_.count() - phase, chunk, stage);
    } else {
      gather(phase - turns_.count() - 1, chunk, stage);
    }
  }

 private:
  std::size_t of_sharing() const { return 2 * turns_.count() + 1; }
  std::size_t hosts() const { return static_cast<std::size_t>(hosts_); }
  std::size_t own() const { return static_cast<std::size_t>(host_); }
  int after(std::size_t distance) const { return rail_[(own() + distance) % hosts()]; }
  int before(std::size_t distance) const { return rail_[(own() + hosts() - distance) % hosts()]; }

  /// Blocks of this host, which are parts of hosts side by side, but for the last host and the first.
  RingPieces blocks(std::size_t chunk, std::size_t first, std::size_t count, int list) const {
    return ring_pieces(hosts(), own(), first, count,
                       [&](std::size_t begin, std::size_t end) { return parts(chunk, begin, end, list); });
  }
  /// Those of hosts [begin, end).
  Piece parts(std::size_t chunk, std::size_t begin, std::size_t end, int list) const {
    if (begin == end) {
      return {list, 0, 0};
    }
    const Range whole{slice_of(own_slice(chunk), static_cast<int>(begin), hosts_).begin,
                      slice_of(own_slice(chunk), static_cast<int>(end) - 1, hosts_).end};
    return list == kScratch ? Piece{list, in_scratch(chunk, whole.begin), in_scratch(chunk, whole.end)}
                            : piece(list, whole);
  }

  /// Of this rank's values those that the first turn does not send away.
  void keep(std::size_t chunk, Stage& stage) const {
    const RingPieces kept = blocks(chunk, 0, turns_.turn(turns_.count() - 1).front().first, kFromInputs);
    if (kept.bytes() > 0) {
      stage.work = Work::copy_to_scratch;
      stage.own = kept.first;
      stage.rest = kept.rest;
      stage.scratch = in_scratch(chunk, kept.first.begin);
    }
  }

  /// Partial sums. Of the first chunk there are messages without bytes, too: they say who is there.
  void scatter(std::size_t turn, std::size_t chunk, Stage& stage) const {
    const bool is_last = turn == 0;
    for (const CirculantTurns::Message& each : turns_.turn(turn)) {
      const bool is_input = sends_inputs_ && turn + 1 == turns_.count();
      const RingPieces sent = blocks(chunk, each.first, each.count, is_input ? kFromInputs : kScratch);
      if (sent.bytes() > 0 || chunk == 0) {
        stage.outgoing.push_back({after(each.distance), sent.first, sent.rest});
      }
      const RingPieces received = blocks(chunk, each.first - each.distance, each.count, kScratch);
      if (received.bytes() > 0 || chunk == 0) {
        stage.incoming.push_back({before(each.distance), {kKept, 0, received.bytes()}});
      }
      if (received.bytes() > 0 && !is_last) {
        stage.work = Work::add_to_scratch;
        stage.combination = 2;
        stage.own = {kScratch, 0, stage.own.bytes() + received.bytes()};
        stage.added.push_back({before(each.distance), received.first, received.rest});
      }
    }
    if (const Range sum = slice_of(own_slice(chunk), host_, hosts_); is_last && sum.bytes() > 0) {
      stage.work = Work::reduce_from_scratch;
      stage.combination = 1;
      stage.own = piece(kFromInputs, sum);
      stage.scratch = in_scratch(chunk, sum.begin);
    }
  }

  /// Reduced parts.
  void gather(std::size_t turn, std::size_t chunk, Stage& stage) const {
    for (const CirculantTurns::Message& each : turns_.turn(turn)) {
      const RingPieces sent = blocks(chunk, each.first - each.distance, each.count, kFromOutputs);
      if (sent.bytes() > 0) {
        stage.outgoing.push_back({before(each.distance), sent.first, sent.rest});
      }
      const RingPieces received = blocks(chunk, each.first, each.count, kFromOutputs);
      if (received.bytes() > 0) {
        stage.incoming.push_back({after(each.distance), received.first, received.rest});
      }
    }
  }

  const CirculantTurns turns_;
  const bool sends_inputs_;
  const std::vector<int> two_;
  std::vector<int> last_;  ///< this rank, and those whose partial sums of its part it hears in the last turn
};

}  // namespace

std::unique_ptr<Schedule> circulant_allreduce_schedule(int rank, const RankLayout& layout, std::size_t bytes,
                                                       std::size_t slice, std::size_t rails,
                                                       const CirculantTurns& turns, bool sends_inputs) {
  return std::make_unique<CirculantSchedule>(rank, layout, bytes, slice, rails, turns, sends_inputs);
}

std::size_t circulant_slice(std::size_t bytes, std::size_t rails, std::size_t messages, std::size_t least) {
  return balanced_slice(bytes / rails, messages, least, kMostSliceInTurns);
}

}  // namespace ronde::collectives
