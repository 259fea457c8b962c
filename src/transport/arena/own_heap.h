// OwnHeap: the pages of this rank's own heap in an arena (arena.h): whether they exist, and whether peers are still to
// use them.
//
// The heap is address space, hundreds of gigabytes of it, of which a page costs memory only once it exists: commit()
// makes pages, discard() gives them back. So what is shared can grow for the life of the job although descriptors are
// passed only once. Who uses which part of it is not decided here: of buckets the coordinator gives out offsets that
// hold in every rank's region alike, of shared buffers and groups each rank its own. A page that was never committed
// must not be touched: where memory is short the kernel would answer with a signal, and touched in a peer's heap it
// would be charged to the toucher.
//
// Implemented by MappedHeap, over what is mapped, and by HeapTail, a part of another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace ronde::transport {

/// Offsets count from the start of the heap. Any thread.
class OwnHeap {
 public:
  virtual ~OwnHeap() = default;
  OwnHeap(const OwnHeap&) = delete;
  OwnHeap& operator=(const OwnHeap&) = delete;

  /// Null if there is no heap.
  std::byte* begin() const { return begin_; }
  std::size_t size_bytes() const { return bytes_; }
  /// So much of the heap, from its start, is the engine's; the rest belongs to others.
  std::size_t engine_bytes() const { return engine_bytes_; }
  /// Where in the heap these bytes lie, -1 if not all of them lie there or some are withdrawn.
  std::int64_t offset_of(const void* data, std::size_t bytes) const;

  /// Makes these pages exist, zero where they did not before, and maps them here; huge pages for what is large enough,
  /// where the kernel has them for shared memory. OUT_OF_MEMORY, without a signal and without waking the kernel's
  /// killer, if the machine or the container has no room for as much from every rank of the host; then nothing of the
  /// range exists any more. Takes about 0.5 us a page of 4 KiB.
  virtual Status commit(std::size_t offset, std::size_t bytes) = 0;
  /// Gives the whole pages within the range back: they are zero if committed again. Nobody may use them any more.
  virtual void discard(std::size_t offset, std::size_t bytes) = 0;
  /// From now on offset_of() knows no byte of the pages that these bytes touch.
  virtual void withdraw(std::size_t offset, std::size_t bytes) = 0;
  /// Whether any byte of the range is withdrawn.
  virtual bool is_withdrawn(std::size_t offset, std::size_t bytes) const = 0;
  /// Makes the pages that these bytes touch memory of this process alone, for good: whoever is in the middle of a store
  /// to them stores elsewhere. What lies beside the bytes in their first and last page keeps its contents, whatever
  /// this process stores there meanwhile; theirs are lost. On an error some pages are still shared. Nothing happens
  /// where the arena's ranks are one process. Requires: withdrawn; no rank works on what lies in these pages, but for
  /// these bytes.
  virtual Status make_private(std::size_t offset, std::size_t bytes) = 0;
  /// While a copy of this lives, this rank's own region stays mapped, also when the arena is gone: what lies in its
  /// heap is ordinary memory then. The peers' regions go with the arena.
  virtual std::shared_ptr<const void> memory() const = 0;

 protected:
  OwnHeap(std::byte* begin, std::size_t bytes, std::size_t engine_bytes)
      : begin_(bytes == 0 ? nullptr : begin), bytes_(bytes), engine_bytes_(engine_bytes) {}

 private:
  std::byte* const begin_;
  const std::size_t bytes_;
  const std::size_t engine_bytes_;
};

}  // namespace ronde::transport
