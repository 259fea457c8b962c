#include "transport/arena/shared_heap.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/memory_room.h"
#include "base/round_up.h"

namespace ronde::transport {

namespace {

Result<std::shared_ptr<void>> private_memory(std::size_t bytes) {
  const std::uint64_t room = memory_room();
  void* data = bytes > room ? nullptr : std::aligned_alloc(kPageAlign, bytes);
  if (data == nullptr) {
    return Status::error(Code::out_of_memory, "no memory for a bucket of " + std::to_string(bytes) + " bytes");
  }
  std::memset(data, 0, bytes);
  return std::shared_ptr<void>(data, &std::free);
}

}  // namespace

SharedHeap::SharedHeap(HostArena& arena)
    : arena_(&arena),
      map_({static_cast<std::int64_t>(HeapParts::of(arena.own_heap().size_bytes()).callers),
            static_cast<std::int64_t>(arena.own_heap().size_bytes())}) {}

Result<std::shared_ptr<void>> SharedHeap::allocate(std::size_t wanted) {
  const std::size_t bytes = round_up(std::max<std::size_t>(wanted, 1), kPageAlign);
  if (bytes < wanted) {
    return Status::error(Code::out_of_memory, "no range of " + std::to_string(wanted) + " bytes exists");
  }
  std::lock_guard lock(mutex_);
  if (arena_ == nullptr) {
    return Status::error(Code::not_initialized, "the engine has shut down; allocate after init");
  }
  if (arena_->size() == 1) {
    return private_memory(bytes);
  }
  OwnHeap& heap = arena_->own_heap();
  if (heap.size_bytes() == 0) {
    return Status::error(Code::out_of_memory,
                         "a rank of this host may not map enough address space to share memory (ulimit -v)");
  }
  const std::optional<std::int64_t> offset = map_.allocate(bytes, kPageAlign);
  if (!offset) {
    return Status::error(Code::out_of_memory, "no range of " + std::to_string(bytes) + " bytes is left of the " +
                                                  std::to_string(heap.size_bytes()) +
                                                  " that the ranks of this host can share");
  }
  const auto start = static_cast<std::size_t>(*offset);
  if (Status committed = heap.commit(start, bytes); !committed) {
    map_.free(*offset);
    return committed;
  }
  void* data = heap.begin() + start;
  return std::shared_ptr<void>(data, [self = shared_from_this(), memory = heap.memory(), at = *offset, bytes,
                                      period = period_](void*) { self->free(at, bytes, period); });
}

void SharedHeap::free(std::int64_t offset, std::size_t bytes, std::uint64_t given_out_in) {
  std::lock_guard lock(mutex_);
  if (arena_ != nullptr) {
    arena_->own_heap().discard(static_cast<std::size_t>(offset), bytes);
    if (arena_->own_heap().is_withdrawn(static_cast<std::size_t>(offset), bytes)) {
      return;  // a late rank may store there for as long as it lives
    }
  }
  if (given_out_in == period_) {
    map_.free(offset);
  }
}

void SharedHeap::distrust() {
  std::lock_guard lock(mutex_);
  ++period_;
}

void SharedHeap::close() {
  std::lock_guard lock(mutex_);
  arena_ = nullptr;
}

}  // namespace ronde::transport
