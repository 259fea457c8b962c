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

namespace ronde::cli {

/// What a rank writes: beside its place in the barrier what it has to tell. Zeroed memory is a line's first state.
struct alignas(128) StartLineEntry {
  std::atomic<std::uint64_t> arrivals;
  double seconds;  ///< of the last call; read by others after the meet() that follows its writing
  std::uint32_t has_failed;
};

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
  bool any_failed() const;

 private:
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
