#include "transport/mapped_arena.h"

#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>

#include "base/memory_room.h"
#include "transport/bell.h"

namespace ronde::transport {

void MappedArena::ring(int rank) { ring_bell(control(rank).bell, member(rank).bell->get()); }

void MappedArena::ring_others() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int rank = 0; rank < layout_.size; ++rank) {
    if (rank != rank_) {
      ring_bell_after_fence(control(rank).bell, member(rank).bell->get());
    }
  }
}

Status MappedArena::commit(std::size_t offset, std::size_t bytes) {
  if (offset > layout_.heap_bytes || bytes > layout_.heap_bytes - offset) {
    return Status::error(Code::out_of_memory, "the ranks of this host can share " + std::to_string(layout_.heap_bytes) +
                                                  " bytes each, and " + std::to_string(bytes) + " bytes at " +
                                                  std::to_string(offset) + " lie outside");
  }
  if (bytes == 0) {
    return {};
  }
  // Every rank is about to ask for as much, and each looks before the others have taken theirs.
  const std::uint64_t room = memory_room() / static_cast<std::uint64_t>(layout_.size);
  if (bytes > room) {
    discard(offset, bytes);
    return Status::error(Code::out_of_memory,
                         std::to_string(bytes) + " bytes of shared memory were wanted on each of " +
                             std::to_string(layout_.size) + " ranks and the machine or the container has room for " +
                             std::to_string(room));
  }
  const int error = pages::make(heap(rank_) + offset, bytes, member(rank_).memfd.get(), layout_.heap_offset() + offset);
  if (error != 0) {
    discard(offset, bytes);
    return Status::error(
        Code::out_of_memory,
        Status::from_errno("making " + std::to_string(bytes) + " bytes of shared memory", error).message());
  }
  return {};
}

void MappedArena::prefault(std::size_t offset, std::size_t bytes) {
  for (int rank = 0; rank < layout_.size; ++rank) {
    if (rank != rank_ && member(rank).mapping != member(rank_).mapping) {
      pages::enter(heap(rank) + offset, bytes);
    }
  }
}

void MappedArena::discard(std::size_t offset, std::size_t bytes) {
  if (layout_.heap_bytes > 0) {
    pages::take(heap(rank_) + offset, bytes);
  }
}

Result<UniqueFd> make_bell_fd() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.is_open()) {
    return Status::from_errno("eventfd", errno);
  }
  return fd;
}

}  // namespace ronde::transport
