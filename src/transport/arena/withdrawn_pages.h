// WithdrawnPages: which pages of this rank's own heap peers are not to use any more, and which of those are memory of
// this process alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "transport/arena/page_ranges.h"

namespace ronde::transport {

/// Offsets count from the start of the heap. Any thread. The functions are those of OwnHeap.
class WithdrawnPages {
 public:
  /// `heap`: its first byte. `memfd`: of the region, -1 where the ranks are one process; `file_offset`: of the heap in
  /// it.
  WithdrawnPages(std::byte* heap, int memfd, std::size_t file_offset)
      : heap_(heap), memfd_(memfd), file_offset_(file_offset) {}

  void withdraw(std::size_t offset, std::size_t bytes);
  bool is_withdrawn(std::size_t offset, std::size_t bytes) const;
  Status make_private(std::size_t offset, std::size_t bytes);
  /// Gives back what of the range is shared and not withdrawn, and what is private; what is withdrawn and still shared
  /// stays, since a peer may store there.
  void discard(std::size_t offset, std::size_t bytes);

 private:
  int make_private(PageRanges::Range range, bool keeps_contents);

  std::byte* const heap_;
  const int memfd_;  ///< pages are made private by it
  const std::size_t file_offset_;
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  PageRanges withdrawn_;  ///< guarded by mutex_
  PageRanges private_;    ///< guarded by mutex_; a part of these
};

}  // namespace ronde::transport
