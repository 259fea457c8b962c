#include "transport/arena/arena.h"

#include "transport/arena/mapping.h"

namespace ronde::transport {

void HostArena::prefault(std::size_t offset, std::size_t bytes) const {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) {
      pages::enter(heap(peer) + offset, bytes);
    }
  }
}

}  // namespace ronde::transport
