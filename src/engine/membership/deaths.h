// Deaths: which ranks have died. After a death nothing is finished: who saw it stops touching memory of others, says
// `quiet`, waits until every other survivor has said so too, and only then tells its callers. Otherwise a survivor that
// has not seen the death yet might still store into memory that a caller, told already, has given back
// (Trap::error_before_quiet in docs/agreement.md's table).
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "transport/peers.h"

namespace ronde::engine {

class Deaths {
 public:
  explicit Deaths(transport::Peers& peers);

  /// The peer's process has ended. Any thread. If it had left in order this is no loss.
  void notice(int peer);
  /// A peer was noticed whose death is a loss; cheap.
  bool any() const { return any_.load(std::memory_order_acquire); }
  /// The peer's process has ended, in order or not.
  bool is_gone(int peer) const { return gone_[static_cast<std::size_t>(peer)].load(std::memory_order_acquire); }

  // ---- Under the progress lock, once any().

  /// Takes over what peers have said of deaths that have not been reported here yet. Before any() too.
  void learn_from_peers();
  /// This rank touches no memory of peers any more, because of all that are lost here: says so, and wakes the survivors
  /// if that is news.
  void say_quiet();
  /// Every survivor has said the same.
  bool are_all_quiet() const;
  /// The peer has.
  bool is_quiet(int peer) const;
  /// The ranks lost, ascending.
  std::vector<int> lost() const;

 private:
  bool in_order(int peer) const { return peers_.departure(peer) != transport::Departure::none; }
  bool is_survivor(int peer) const;

  transport::Peers& peers_;
  std::vector<std::atomic<bool>> gone_;
  std::vector<std::atomic<bool>> lost_;
  std::atomic<bool> any_{false};
};

}  // namespace ronde::engine
