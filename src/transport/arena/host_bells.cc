#include "transport/arena/host_bells.h"

namespace ronde::transport {

void HostBells::ring_one(const HostBell& bell) {
  if (bell.calls != nullptr) {
    call_group_after_fence(*bell.calls, bell.call);
  }
  ring_bell_after_fence(*bell.line, bell.event_fd);
}

void HostBells::ring_others_after_fence() const {
  const int size = static_cast<int>(bells_.size());
  for (int rank = 0; rank < size; ++rank) {
    if (rank != own_) {
      ring_one(of(rank));
    }
  }
}

}  // namespace ronde::transport
