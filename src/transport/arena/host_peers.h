// HostPeers: the members of a group on one host, told by words in the shared control block of each (control_block.h).
// Every word has one writer.
#pragma once

#include <atomic>
#include <vector>

#include "transport/arena/arena.h"
#include "transport/peers.h"

namespace ronde::transport {

class HostPeers final : public Peers {
 public:
  /// `arena` must outlive this.
  explicit HostPeers(HostArena& arena);

  int self() const override { return arena_.rank(); }
  int size() const override { return arena_.size(); }

  void say_departed(Departure how) override;
  void say_frozen(std::uint32_t epoch, std::uint32_t reason) override;
  void say_quiet(const std::vector<int>& lost) override;
  void say_given_up() override;
  void wake(int member) override { arena_.bells().ring(member); }
  void wake_others() override { arena_.bells().ring_others(); }

  Departure departure(int member) const override;
  std::uint32_t frozen_in(int member) const override;
  bool is_quiet_about(int member, int lost) const override;
  bool has_given_up(int member) const override;
  /// One load for each member, of lines that nobody writes as long as all is well.
  bool has_any_given_up() const override;

 private:
  HostArena& arena_;
  std::vector<const std::atomic<std::uint32_t>*> given_up_;  ///< of the others
};

}  // namespace ronde::transport
