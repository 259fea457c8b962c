// The state of the model of unnamed calls: of each rank, of the words that ranks share, of the messages under way and
// of the coordinator.
#pragma once

#include <type_traits>
#include <utility>

#include "scenario.h"
#include "types/instance_word.h"

namespace ronde::agreement::calls_model {

enum class Mode : Byte { negotiate, replay, frozen, drain };
enum class CallStage : Byte { fresh, queued, placed, sent, held, succeeded, failed };
enum class Stage : Byte { none, reducing, reduced };

struct Call {
  CallStage stage = CallStage::fresh;
  Byte number = 0;  ///< of a barrier: its name
  Byte at = 0;      ///< of a queued call: the place that it waits for
};

struct Rank {
  Mode mode = Mode::negotiate;
  Byte epoch = 0;
  Byte label = 0;      ///< entries read that move or fail calls
  Byte position = 0;   ///< in the part of the log that is kept
  Byte next = 0;       ///< in the program
  Byte waits_for = 0;  ///< 1 + its place in the program; 0: nothing
  Byte barriers = 0;
  Byte count = 0;  ///< calls since
  Byte in_force = 0;
  Byte waited = 0;     ///< mask: what the program has waited for, and seen the end of
  Byte late_word = 0;  ///< a fault's: 1 + the bucket whose numbers are not stored yet
  Byte arrivals = 0;   ///< a fault's: calls that the coordinator has received
  std::array<Call, kOps> calls{};
  std::array<Byte, kNumbers> owed{};       ///< an error was read before the call was made
  std::array<Byte, kNumbers> refused{};    ///< by this rank
  Grid<Byte, kBuckets, kPlaces> places{};  ///< 1 + the call's place in the program
  std::array<Byte, kHints> turn{};
  std::array<Byte, kBuckets> instances{};
  std::array<Byte, kBuckets> decided{};
  std::array<Byte, kBuckets> published{};
  std::array<Stage, kBuckets> stage{};
};

/// The codec of the product, in fewer bits.
using FlagWord = InstanceWord<Byte, 4>;

/// What alternates by the parity of the instance is the second index.
struct Words {
  Grid<Byte, kBuckets, 2> flag{};
  std::array<Grid<Byte, 2, kPlaces>, kBuckets> numbers{};
  std::array<Grid<Byte, 2, kPlaces>, kBuckets> meets{};  ///< seen by the checks alone: what lies behind the flag
  std::array<Byte, kBuckets> done{};
  Byte frozen = 0;
};

struct Entry {
  enum class Kind : Byte { none, exec, error, install, add };
  Kind kind = Kind::none;
  Byte number = 0;
  Byte mask = 0;  ///< error: whom it does not concern; install, add: the buckets
  Byte meets = 0;
};

struct Message {
  enum class Kind : Byte { none, request, refused, end };
  Kind kind = Kind::none;
  Byte number = 0;  ///< of a barrier: its name
  Byte op = 0;      ///< what it asks for: descriptor and hint
  Byte label = 0;
  Byte count = 0;  ///< of a barrier: calls before it
};

constexpr int kLogKept = 10;
constexpr int kMessages = 10;

struct State {
  std::array<Rank, kRanks> ranks{};
  std::array<Words, kRanks> words{};
  /// Seen by the checks alone: the last instance that a rank looked at, by parity, and whether it was void.
  Grid<Byte, kBuckets, 2> judged{};
  Grid<Byte, kBuckets, 2> was_void{};
  std::array<Entry, kLogKept> log{};
  Grid<Message, kRanks, kMessages> up{};
  std::array<Byte, kRanks> messages{};
  Byte entries = 0;
  Byte moves = 0;
  Byte epoch = 0;
  Byte ended = 0;
  Byte in_force = 0;
  Byte installs = 0;
  Byte last_refused = 0;  ///< 1 + the number
  Byte breaks = 0;
  Byte waits = 0;
  Grid<Byte, kNumbers, kRanks> held{};  ///< 1 + the call's place in the rank's program
  std::array<Byte, kNumbers> moved{};
  std::array<Byte, kHints> hint_moved{};
  std::array<Byte, kHints> answers{};  ///< since all places of a bucket were in phase
  Grid<Byte, kRanks, 3> made{};        ///< by count: 1 + the calls before the barrier that ended it
};

static_assert(std::has_unique_object_representations_v<State>, "states are compared by their bytes");

}  // namespace ronde::agreement::calls_model
