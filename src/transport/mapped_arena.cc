#include "transport/mapped_arena.h"

#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>

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

Result<UniqueFd> make_bell_fd() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.is_open()) {
    return Status::from_errno("eventfd", errno);
  }
  return fd;
}

}  // namespace ronde::transport
