// Where the ranks of a measurement start together and leave their times: a page of shared memory of their own, outside
// the engine that is measured.
//
// Ranks that share no memory exchange what they have to tell when they meet.
//
// Each rank owns one line and writes nothing else. meet() is a barrier: a rank counts its own line up and waits until
// every other has got as far. It spins for a while, so that all leave within some hundred nanoseconds, then yields;
// with more ranks than cores it yields at once, since who spins holds up those it waits for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace ronde::cli {

/// What a rank writes: beside its place in the barrier what it has to tell. Zeroed memory is a line's first state.
struct alignas(128) StartLineEntry {
  std::atomic<std::uint64_t> arrivals;
  double seconds;          ///< of the last call; this and the next three are read by others after the next meet()
  double compute_seconds;  ///< of the same computing without communication, where there is any
  std::uint32_t has_failed;
  std::uint32_t is_last;  ///< rank 0's: no further call of this measurement
  std::atomic<std::uint64_t> ping;
  std::atomic<std::uint64_t> pings_over;  ///< how many calls of line_ns() have ended
  std::int64_t offered[2];                ///< what a contestant tells its peers
};

/// A view of `ranks` entries, which must outlive it.
class StartLine {
 public:
  /// Where the ranks share no memory: brings all ranks' entries here when all have called it. Why it failed, as a
  /// sentence, else nothing.
  using Exchange = std::function<std::string()>;

  /// Requires: 0 <= rank < ranks.
  StartLine(StartLineEntry* entries, int rank, int ranks, bool may_spin)
      : entries_(entries), rank_(rank), ranks_(ranks), may_spin_(may_spin) {}
  /// Of entries that this rank alone has.
  StartLine(StartLineEntry* entries, int rank, int ranks, Exchange exchange)
      : entries_(entries), rank_(rank), ranks_(ranks), may_spin_(false), exchange_(std::move(exchange)) {}

  StartLineEntry& own() { return entries_[rank_]; }
  const StartLineEntry& of(int rank) const { return entries_[rank]; }

  /// -1 when all ranks have called it as often as this one; else, after `limit`, a rank that has not. By an exchange,
  /// which has a limit of its own, this rank if that has failed.
  int meet(std::chrono::seconds limit);
  /// Why the last exchange has failed; empty if it has not.
  const std::string& failure() const { return failure_; }
  /// The longest of the ranks' times. Between two calls of meet().
  double longest_seconds() const;
  double longest_compute_seconds() const;
  /// How long a cache line takes from rank 0's core to rank 1's, in nanoseconds: half a round trip, the median of many.
  /// Collective; takes half a millisecond, on a machine that others keep busy a twentieth of a second. 0 where it says
  /// nothing: one rank, or more ranks than cores.
  double line_ns();
  bool any_failed() const;

 private:
  double serve_pings();
  double return_pings();

  StartLineEntry* entries_;
  int rank_;
  int ranks_;
  bool may_spin_;
  Exchange exchange_;
  std::string failure_;
};

}  // namespace ronde::cli
