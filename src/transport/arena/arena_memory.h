// ArenaMemory: what members reach of each other in the heaps of an arena (arena.h). A place is an offset in the heap of
// the rank's region, as that arena counts.
#pragma once

#include <memory>

#include "transport/arena/arena.h"
#include "transport/arena/shared_heap.h"
#include "transport/reachable_memory.h"

namespace ronde::transport {

class ArenaMemory final : public ReachableMemory {
 public:
  /// Which of the job's ranks are in the arena.
  enum class Holds { all_members, own_rank };

  /// Of a job. `arena` must outlive this, as below.
  ArenaMemory(HostArena& arena, Holds holds) : ArenaMemory(arena, holds, std::make_shared<SharedHeap>(arena), true) {}
  /// Of a group within a job, whose callers get memory where the job's do.
  ArenaMemory(HostArena& arena, Holds holds, std::shared_ptr<SharedHeap> jobs_heap)
      : ArenaMemory(arena, holds, std::move(jobs_heap), false) {}

  Result<std::shared_ptr<void>> allocate(std::size_t wanted) override { return heap_->allocate(wanted); }
  bool reaches_members() const override { return holds_ == Holds::all_members; }
  std::int64_t place_of(const void* data, std::size_t bytes) const override {
    return arena_.own_heap().offset_of(data, bytes);
  }
  const std::byte* find(int member, std::int64_t place, std::uint64_t bytes) const override;
  const std::byte* begin_of(const MemorySpan& span) const override { return arena_.own_heap().begin() + span.offset; }
  void withdraw(const MemorySpan& span) override { arena_.own_heap().withdraw(span.offset, span.bytes); }
  Status make_private(const MemorySpan& span) override {
    return arena_.own_heap().make_private(span.offset, span.bytes);
  }
  void end(bool have_all_left) override;

  /// For groups within the job.
  const std::shared_ptr<SharedHeap>& heap() const { return heap_; }

 private:
  ArenaMemory(HostArena& arena, Holds holds, std::shared_ptr<SharedHeap> heap, bool owns_heap)
      : arena_(arena), holds_(holds), heap_(std::move(heap)), owns_heap_(owns_heap) {}

  HostArena& arena_;
  const Holds holds_;
  const std::shared_ptr<SharedHeap> heap_;
  const bool owns_heap_;
};

}  // namespace ronde::transport
