// Loss: what happens after a rank has died. Nothing is finished: who saw the death stops touching shared memory, says
// `quiet`, waits until every other survivor has said so too, and only then tells its callers. Otherwise a survivor that
// has not seen the death yet might still store into memory that a caller, told already, has given back
// (docs/agreement.md, trap 13).
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "transport/arena.h"

namespace ronde::engine {

class Loss {
 public:
  explicit Loss(transport::HostArena& arena);

  /// The peer's process has ended. Any thread. If it had left in order this is no loss.
  void notice(int peer);
  /// A peer was noticed whose death is a loss; cheap.
  bool any() const { return any_.load(std::memory_order_acquire); }
  /// The peer's process has ended, in order or not.
  bool is_gone(int peer) const { return gone_[static_cast<std::size_t>(peer)].load(std::memory_order_acquire); }

  // ---- Under the progress lock, once any().

  /// Says that this rank touches no shared memory any more, because of all losses known here and to peers that have
  /// said so; rings them. True once every survivor has said the same.
  bool settle();
  /// The ranks lost, ascending.
  std::vector<int> lost() const;
  /// Takes over what peers have said of deaths that have not been reported here yet. Before any() too.
  void learn_from_peers();
  /// The peer has said that it touches no shared memory any more, because of all that are lost here.
  bool is_quiet(int peer) const;

 private:
  bool in_order(int peer) const;

  transport::HostArena& arena_;
  std::vector<std::atomic<bool>> gone_;
  std::vector<std::atomic<bool>> lost_;
  std::atomic<bool> any_{false};
};

}  // namespace ronde::engine
