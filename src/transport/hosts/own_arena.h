// OwnArena: what an engine gets of a host's arena whose other ranks it reaches by messages: this rank's own region, as
// an arena of one. Its bell is the one that the others ring when they have written to a ring.
#pragma once

#include <memory>

#include "transport/arena/arena.h"

namespace ronde::transport {

class OwnArena final : public HostArena {
 public:
  explicit OwnArena(std::shared_ptr<HostArena> host);

  int rank() const override { return 0; }
  int size() const override { return 1; }
  const RegionLayout& layout() const override { return layout_; }
  std::byte* region(int) const override { return host_->region(host_->rank()); }
  const PeerInfo& peer(int) const override { return host_->peer(host_->rank()); }
  int peer_fd(int) const override { return -1; }
  int bell_fd() const override { return host_->bell_fd(); }
  void ring_after_fence(int) override { host_->ring_after_fence(host_->rank()); }
  void ring_others_after_fence() override {}
  Status need_slots(std::size_t bytes) override { return host_->need_slots(bytes); }
  Status commit(std::size_t offset, std::size_t bytes) override { return host_->commit(offset, bytes); }
  void prefault(std::size_t, std::size_t) override {}
  void discard(std::size_t offset, std::size_t bytes) override { host_->discard(offset, bytes); }
  void withdraw(std::size_t offset, std::size_t bytes) override { host_->withdraw(offset, bytes); }
  bool is_withdrawn(std::size_t offset, std::size_t bytes) const override { return host_->is_withdrawn(offset, bytes); }
  Status make_private(std::size_t offset, std::size_t bytes) override { return host_->make_private(offset, bytes); }
  std::shared_ptr<const void> own_memory() const override { return host_->own_memory(); }
  std::size_t engine_bytes() const override { return host_->engine_bytes(); }

 private:
  const std::shared_ptr<HostArena> host_;
  RegionLayout layout_;
};

}  // namespace ronde::transport
