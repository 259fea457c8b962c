// ReachableMemory: this rank's memory that the other members of a group read and write without its help, and theirs
// that it reaches the same way. An engine asks for it, tells where its pieces lie, and takes it out of the others'
// reach; what it is made of is the implementation's affair (arena_memory.h). Places are each rank's own: a rank that is
// told one by its owner finds what lies there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "types/memory_place.h"

namespace ronde::transport {

/// Any thread.
class ReachableMemory {
 public:
  virtual ~ReachableMemory() = default;

  /// Zeroed memory at a multiple of a page, freed with the last copy: ordinary memory for as long as its owner likes,
  /// also when this is gone. OUT_OF_MEMORY if the machine, the container or what can be reached has no room; nothing
  /// has happened then. A job of one rank, whom nobody reaches, gets private memory.
  virtual Result<std::shared_ptr<void>> allocate(std::size_t wanted) = 0;
  /// Members reach each other's memory here. If not, what is allocated serves this rank alone, and nobody is found.
  virtual bool reaches_members() const = 0;
  /// Where in this rank's memory these bytes begin, for those who reach it; kNoOffset if not all of them lie there, or
  /// some are withdrawn.
  virtual std::int64_t place_of(const void* data, std::size_t bytes) const = 0;
  /// What the member has at that place of its own; null if it has not that many bytes there.
  virtual const std::byte* find(int member, std::int64_t place, std::uint64_t bytes) const = 0;

  // ---- Out of reach

  /// Where the span lies for this rank itself.
  virtual const std::byte* begin_of(const MemorySpan& span) const = 0;
  /// From now on place_of() knows no byte of the pages that these bytes touch.
  virtual void withdraw(const MemorySpan& span) = 0;
  /// Makes the pages that these bytes touch memory of this process alone, for good: whoever is in the middle of a store
  /// to them stores elsewhere. What lies beside the bytes in their first and last page keeps its contents; theirs are
  /// lost. On an error some pages are still reached. Requires: withdrawn; no rank works on what lies in these pages,
  /// but for these bytes.
  virtual Status make_private(const MemorySpan& span) = 0;
  /// This rank has nothing to do with the group any more. Of a job: nothing is allocated from now on. Of a group within
  /// one: unless all members have left, one may still write to what is given out now, and this is not given out again
  /// once it is freed.
  virtual void end(bool have_all_left) = 0;
};

}  // namespace ronde::transport
