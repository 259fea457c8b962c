// GivenUp: which ranks of a group have ended requests with an error while others may still have been at work on them.
// Their callers have their memory back and may have stored something else there, so what is computed from it since is
// worth nothing; and a rank that was stopped in the middle, by suspend or a debugger say, goes on as if nothing had
// happened.
//
// So a rank looks after its last read of what peers own, and before it tells anybody of a success. A rank that gives up
// stores its word first and tells its callers then, with a fence between. Whoever has read what a caller stored after
// that therefore sees the word; a rank that has seen none has read nothing wrong, and if one gives up after that look
// it is too late to do harm.
//
// It looks as well when what it has published does not move: that needs every rank, and one that has given up does no
// more for it.
#pragma once

#include <atomic>
#include <vector>

#include "transport/arena.h"

namespace ronde::engine {

class GivenUp {
 public:
  explicit GivenUp(transport::HostArena& arena);

  /// This rank has. Requires: it touches no shared memory of the group any more. Tell callers afterwards.
  void say();
  /// A peer has. One load for each, of lines that nobody writes as long as all is well.
  bool by_any_peer() const {
    std::atomic_thread_fence(std::memory_order_acquire);
    for (const std::atomic<std::uint32_t>* const word : peers_) {
      if (word->load(std::memory_order_relaxed) != 0) [[unlikely]] {
        return true;
      }
    }
    return false;
  }
  bool by(int rank) const;
  std::vector<int> peers() const;

 private:
  transport::HostArena& arena_;
  std::vector<const std::atomic<std::uint32_t>*> peers_;
};

}  // namespace ronde::engine
