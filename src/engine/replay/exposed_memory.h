// ExposedMemory: what becomes of callers' memory when their requests end in an error while other ranks may still be at
// work on it.
//
// Into a tensor in shared memory that is reduced where it lies, other ranks write. One of them may be stopped, not
// dead, in the middle of that, and go on at any time. So before anybody is told of the error, the pages of such outputs
// are replaced by others that no rank but this one has. From then on they are private for every group of this process:
// ReachableMemory::place_of() does not know them, buckets that were planned there are left, and their places are not
// given out again.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/requests/pending_table.h"
#include "engine/requests/ticket.h"
#include "transport/reachable_memory.h"
#include "types/memory_place.h"

namespace ronde::engine {

/// Under the progress lock.
class ExposedMemory {
 public:
  /// `memory`, this rank's, must outlive this.
  explicit ExposedMemory(transport::ReachableMemory& memory) : memory_(memory) {}

  /// Peers may store there for the sake of what has been given up.
  void add(MemorySpan span) { exposed_.push_back(span); }
  bool is_empty() const { return exposed_.empty(); }
  /// No peer can: they are at work no more.
  void forget() { exposed_.clear(); }
  /// Replaces the pages. `is_in_use`: whether something else of this process is at work in one of the pages of these
  /// bytes, so that they cannot be replaced; it has stopped what can be stopped. Requires: this rank touches nothing of
  /// the group's any more and has said so.
  void take_back(const std::function<bool(const std::byte*, std::size_t)>& is_in_use);
  /// Says so besides if the memory of the ticket could not be taken back.
  Status with_memory_lost(Status status, const Ticket& ticket) const;

 private:
  Status make_private(const MemorySpan& span, const std::function<bool(const std::byte*, std::size_t)>& is_in_use);

  transport::ReachableMemory& memory_;
  std::vector<MemorySpan> exposed_;
  /// Memory that nobody may use any more, and why.
  std::vector<std::pair<MemorySpan, std::string>> lost_;
};

/// A request that may be done in shared memory, in one of the pages of these bytes, is under way.
bool any_in_pages_of(const PendingTable& pending, const std::byte* begin, std::size_t bytes);

}  // namespace ronde::engine
