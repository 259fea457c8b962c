// SharedHeap: the part of this rank's heap that callers get buffers from: memory that every rank of the host maps, so
// that an all-reduce of what lies in it is done in the tensors themselves (collectives/shm/direct.h).
//
// Allocation is local: no rank is asked. That is enough, because every rank maps every other's whole heap, and a
// tensor's offset travels with its request.
//
// A buffer is ordinary memory of its owner for as long as it likes, also after shutdown: it keeps the mapping alive.
// The peers' views end with their arenas.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/status.h"
#include "transport/arena/arena.h"
#include "transport/arena/heap_map.h"

namespace ronde::transport {

/// Any thread.
class SharedHeap : public std::enable_shared_from_this<SharedHeap> {
 public:
  explicit SharedHeap(HostArena& arena);

  /// Zeroed memory at a multiple of a page, freed with the last copy. OUT_OF_MEMORY if the machine, the container or
  /// the heap has no room; nothing has happened then. A job of one rank, which shares with nobody, gets private memory.
  Result<std::shared_ptr<void>> allocate(std::size_t wanted);
  /// A rank may still write to what is given out now, whenever it comes round: this is not given out again once it is
  /// freed. What was never given out serves as before.
  void distrust();
  /// The arena is about to go: nothing more is allocated, what is stays until its owners free it.
  void close();

 private:
  void free(std::int64_t offset, std::size_t bytes, std::uint64_t given_out_in);

  std::mutex mutex_;
  HostArena* arena_;  ///< null once closed
  HeapMap map_;
  std::uint64_t period_ = 0;  ///< one ends with each distrust()
};

}  // namespace ronde::transport
