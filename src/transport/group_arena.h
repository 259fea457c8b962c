// GroupArena: the arena of some ranks of a host, made within the host's own: each member gives a part of its heap, at
// the same place in all, for the group's control block, rings and slots, and for what its engine needs besides. So a
// group needs no descriptor to be passed and no new mapping.
//
// Bells, deaths and names are those of the host's arena: whoever sleeps in a rank is woken by one bell, whichever of
// the rank's engines it is for.
//
//     host's heap:   engine's own | parts of groups | callers'
//                                   ^ place.offset    ^
//                                   control block, rings, slots | engine's own, callers'    <- the group's region
//                                                                 ^ its heap, to the end of the host's
//
// So tensors in the callers' part have an offset in the heap of each group too, and are reduced where they lie by any.
// Unlike a host's own arena nothing keeps a member from writing to a peer's rings and slots by mistake: the heap is
// writable for all.
#pragma once

#include <cstddef>
#include <vector>

#include "transport/arena.h"

namespace ronde::transport {

/// Where in every member's heap a group's region lies; multiples of kHugePageBytes.
struct GroupPlace {
  std::size_t offset = 0;
  std::size_t bytes = 0;  ///< at least those before the heap of RegionLayout::for_size(members)
};

class GroupArena final : public HostArena {
 public:
  /// `ranks`: of the host, ascending; this rank is one of them. `host` must outlive this.
  GroupArena(HostArena& host, std::vector<int> ranks, const GroupPlace& place);

  /// What a group of so many ranks needs at least, and what it is given where there is room.
  static std::size_t least_bytes(int size);
  static std::size_t usual_bytes(const RegionLayout& host, int size);

  /// Makes this rank's part of the region exist, all zero. Before any member uses the arena; then see to it that all
  /// have.
  Status open();
  /// Gives it back, once no member uses it any more.
  void close();

  int rank() const override { return own_; }
  int size() const override { return layout_.size; }
  const RegionLayout& layout() const override { return layout_; }
  std::byte* region(int rank) const override { return host_.heap(host_rank(rank)) + place_.offset; }
  const PeerInfo& peer(int rank) const override { return host_.peer(host_rank(rank)); }
  int peer_fd(int rank) const override { return host_.peer_fd(host_rank(rank)); }
  int bell_fd() const override { return host_.bell_fd(); }
  void ring(int rank) override { host_.ring(host_rank(rank)); }
  void ring_others() override;
  Status commit(std::size_t offset, std::size_t bytes) override;
  void prefault(std::size_t offset, std::size_t bytes) override;
  void discard(std::size_t offset, std::size_t bytes) override;
  void withdraw(std::size_t offset, std::size_t bytes) override { host_.withdraw(heap_start() + offset, bytes); }
  bool is_withdrawn(std::size_t offset, std::size_t bytes) const override {
    return host_.is_withdrawn(heap_start() + offset, bytes);
  }
  Status make_private(std::size_t offset, std::size_t bytes) override {
    return host_.make_private(heap_start() + offset, bytes);
  }
  std::shared_ptr<const void> own_memory() const override { return host_.own_memory(); }
  std::size_t engine_bytes() const override { return place_.bytes - layout_.heap_offset(); }

 private:
  int host_rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  /// Of the group's heap, in the host's.
  std::size_t heap_start() const { return place_.offset + layout_.heap_offset(); }

  HostArena& host_;
  const std::vector<int> ranks_;
  const GroupPlace place_;
  int own_ = 0;
  RegionLayout layout_;
};

}  // namespace ronde::transport
