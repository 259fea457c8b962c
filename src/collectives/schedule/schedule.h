// Schedule: what one rank sends, receives and computes in one collective whose bytes travel as messages (over Links;
// what lies in memory of one host has algorithms of its own, collectives/shm). A value of its rank, the number of
// ranks and sizes alone: it knows no link, no pointer and no time, so that a test can lay the schedules of all ranks
// side by side.
//
// Stages. Every rank's schedule has the same number of stages. In stage t each rank sends each other at most one
// message, whose length both know. A rank has finished stage t when all messages of the stage for it have come, it has
// handed over its own, and the stage's work is done; the work comes last, since in place it writes over what is sent. A
// rank receives and finishes in the order of the stages. It sends the messages of stage t once it has finished `after`
// stages, after <= t, and handed over what it sends before t.
//
// Why it ends, whatever the order in which links deliver, as long as each delivers in order and however little room it
// has: let t be the first stage that some rank never finishes. All ranks have finished the stages before t, at least
// `after` of them, so their messages are in no link any more and those of stage t may go. Who waits for one of these
// asks that link again and again, so there is room in it; so all are handed over, come, and are received.
//
// What a rank must hold of messages that come early is bounded by `after`: nobody is further ahead than that.
#pragma once

#include <cstddef>
#include <vector>

namespace ronde::collectives {

/// Bytes [begin, end) of one of an operation's gather lists. Who sends or computes reads where the list reads, who
/// receives or computes writes where it writes.
struct Piece {
  int list = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t bytes() const { return end - begin; }
  bool operator==(const Piece&) const = default;
};

/// In place of a list: the message is kept as it is until the stage's work is done.
inline constexpr int kKept = -1;
/// In place of a list: bytes of the run's scratch memory (Schedule::scratch_bytes()), which nothing writes while
/// they may still be sent.
inline constexpr int kScratch = -2;

/// A message to a rank. Where its bytes lie in two places, those of `rest` come behind the others, from the same list.
struct Outgoing {
  int to = 0;
  Piece from;
  Piece rest = {};
  std::size_t bytes() const { return from.bytes() + rest.bytes(); }
};

/// A message from a rank, likewise.
struct Incoming {
  int from = 0;
  Piece into;
  Piece rest = {};
  std::size_t bytes() const { return into.bytes() + rest.bytes(); }
};

/// What a rank computes when all messages of a stage are there.
enum class Work {
  none,
  carry_over,           ///< `own` from where it is read to where it is written
  reduce,               ///< `own` and the kept messages, those of Schedule::inputs() in this order, into `own`
  reduce_to_scratch,    ///< the same, but into scratch memory from Stage::scratch on
  reduce_from_scratch,  ///< the same into `own`, but with this rank's own value from there
  copy_to_scratch,      ///< `own` into scratch memory from Stage::scratch on, Stage::rest as far behind as in the list
  add_to_scratch,       ///< kept messages, to what lies in scratch memory (Stage::added); `own`: as many bytes
  reduce_gathered,      ///< what lies in scratch memory (Schedule::gathered()), into `own`
  put_gathered,         ///< the same, each where list r is written, r the rank; this rank's own is carried over there
  empty,                ///< the reduction of no values into `own`
};

struct Stage {
  std::size_t after = 0;  ///< how many stages this rank must have finished before it sends
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  Work work = Work::none;
  Piece own;
  Piece rest;
  std::size_t combination = 0;  ///< which of the schedule's, of work that reduces
  std::size_t scratch = 0;
  std::vector<Incoming> added;  ///< which messages are added to which scratch memory, in this order

  void clear() {
    after = 0;
    outgoing.clear();
    incoming.clear();
    added.clear();
    work = Work::none;
    own = rest = {};
    combination = scratch = 0;
  }
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual std::size_t stages() const = 0;
  /// What this rank does in a stage. Requires: index < stages(), `stage` is clear. Messages without bytes are left out,
  /// on both sides, but where somebody waits for the message itself.
  virtual void describe(std::size_t index, Stage& stage) const = 0;
  /// What this rank sends is written over only by messages of ranks that have had it, so that its bytes need not be
  /// copied when it is handed over before there is room for it.
  virtual bool keeps_what_it_sends() const { return false; }
  /// How many stages ahead of the one that this rank is in what comes may be written to where it belongs, since peers
  /// send that only when they have had what this rank sends of the same memory.
  virtual std::size_t written_ahead() const { return 0; }
  virtual std::size_t scratch_bytes() const { return 0; }
  /// Of work with what was gathered: where in scratch memory the values of an input begin.
  virtual std::size_t gathered(std::size_t /*input*/) const { return 0; }
  /// After how many stages this rank has heard from all, be it through others. Those messages are there even if they
  /// have no bytes.
  virtual std::size_t hears_all_by() const { return 1; }
  /// The stage whose messages tell the ranks of told() that this rank has heard from all: these hear it from nobody
  /// else, so the messages are sent even without bytes.
  virtual std::size_t telling_stage() const { return 0; }
  virtual std::vector<int> told() const { return {}; }
  /// How many different reductions there are, and the ranks whose values one has, in order; this rank's own are read
  /// from `own`. Empty: this rank has no such reduction.
  virtual std::size_t combinations() const { return 1; }
  virtual const std::vector<int>& inputs(std::size_t combination) const = 0;
};

}  // namespace ronde::collectives
