// Where the ranks of a measurement start together and leave their times: a page of shared memory of their own, outside
// the engine that is measured.
//
// Each rank owns one line and writes nothing else. meet() is a barrier: a rank counts its own line up and waits until
// every other has got as far. It spins for a while, so that all leave within some hundred nanoseconds, then yields;
// with more ranks than cores it yields at once, since who spins holds up those it waits for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

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

/// Of this process's affinity mask, at least 1: with more ranks than these a start line may not spin.
int usable_cores();
/// Keeps the calling thread on a core of its own if there is one for each rank, as the launchers of MPI do: on a busy
/// machine two ranks that wait for each other would else end up on one. Threads that exist already stay free.
void stay_on_own_core(int rank, int ranks);

/// A view of `ranks` entries, which must outlive it.
class StartLine {
 public:
  /// Requires: 0 <= rank < ranks.
  StartLine(StartLineEntry* entries, int rank, int ranks, bool may_spin)
      : entries_(entries), rank_(rank), ranks_(ranks), may_spin_(may_spin) {}

  StartLineEntry& own() { return entries_[rank_]; }
  const StartLineEntry& of(int rank) const { return entries_[rank]; }

  /// -1 when all ranks have called it as often as this one; else, after `limit`, a rank that has not.
  int meet(std::chrono::seconds limit);
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
};

/// Shared memory that has no name and goes with its last user, zeroed. Nothing is thrown; see is_mapped().
class SharedPages {
 public:
  /// Makes it. `descriptor()` is then what others of this user open.
  static SharedPages create(std::size_t bytes);
  /// Maps what process `pid` of this machine and user has as `descriptor`.
  static SharedPages open(std::int64_t pid, std::int64_t descriptor, std::size_t bytes);
  /// Maps a file that is at least so long.
  static SharedPages open(const std::string& path, std::size_t bytes);
  SharedPages(SharedPages&& other) noexcept;
  SharedPages& operator=(SharedPages&&) = delete;
  ~SharedPages();

  bool is_mapped() const { return data_ != nullptr; }
  void* data() const { return data_; }
  int descriptor() const { return descriptor_; }

 private:
  SharedPages(int descriptor, std::size_t bytes);

  int descriptor_ = -1;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ronde::cli
