#include "engine/given_up.h"

namespace ronde::engine {

GivenUp::GivenUp(transport::HostArena& arena) : arena_(arena) {
  for (int rank = 0; rank < arena.size(); ++rank) {
    if (rank != arena.rank()) {
      peers_.push_back(&arena.control(rank).breaks.given_up);
    }
  }
}

void GivenUp::say() {
  arena_.control(arena_.rank()).breaks.given_up.store(1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool GivenUp::by(int rank) const { return arena_.control(rank).breaks.given_up.load(std::memory_order_acquire) != 0; }

std::vector<int> GivenUp::peers() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < arena_.size(); ++rank) {
    if (rank != arena_.rank() && by(rank)) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace ronde::engine
