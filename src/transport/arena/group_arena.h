// GroupArena: the arena of some ranks of a host, made within the host's own: each member gives a part of its heap for
// the group's control block, rings and slots, and for what its engine needs besides. So a group needs no descriptor, no
// mapping and no thread of its own, and its address space is the host's.
//
// Bells, deaths and names are those of the host's arena: whoever sleeps in a rank is woken by one bell, whichever of
// the rank's engines it is for; the rank's CallLine says which (group_calls.h).
//
//     host's heap:   engine's own | parts of groups | callers'
//                                   ^ offset        ^
//                                   control block, rings, slots | engine's own, callers'    <- the group's region
//                                                                 ^ its heap, to the end of the host's
//
// Each member chooses its offset by itself and tells the others. So tensors in the callers' part have an offset in the
// heap of each group too, counted from where the group's begins in that rank, and are reduced where they lie by any.
// Unlike a host's own arena nothing keeps a member from writing to a peer's rings and slots by mistake: the heap is
// writable for all.
//
// Memory. A host's slots exist from the meeting on. Of a group's only the lines and rings do, some ten kilobytes a
// peer; its slots are made when first something is so large that it needs them, need_slots().
//
// The end. A rank may give its part back once no member touches it any more, and nobody can look for that in memory
// that may be gone. So each member, when it goes, tells every other in the other's own part, as its last access to it;
// who has been told by all looks at its own memory alone, has_been_left().
#pragma once

#include <cstddef>
#include <vector>

#include "transport/arena/arena.h"

namespace ronde::transport {

/// Where in a member's heap its part of a group lies.
struct GroupPlace {
  std::size_t offset = 0;  ///< multiples of kHugePageBytes, both
  std::size_t bytes = 0;   ///< at least GroupArena::least_bytes()
};

/// What a member tells the others.
struct GroupMember {
  int rank = 0;            ///< of the host
  std::size_t offset = 0;  ///< of its place
  int call = 0;            ///< the group's number in this rank's CallLine
};

class GroupArena final : public HostArena {
 public:
  /// `members`: in the order of the group; this rank is one of them, and its offset that of `place`. All have opened
  /// their parts. `host` must outlive this.
  GroupArena(HostArena& host, std::vector<GroupMember> members, const GroupPlace& place);
  /// Touches nothing of the others' parts any more, and tells them.
  ~GroupArena() override;

  /// Room that a group of so many ranks needs at least, and a good measure where so many bytes are left for groups.
  static std::size_t least_bytes(int size);
  static std::size_t usual_bytes(int size, std::size_t left);

  /// Makes this rank's part of a group of so many ranks exist, but for the slots and the heap, all zero. Before any
  /// member makes its arena; then see to it that all have.
  static Status open(HostArena& host, const GroupPlace& place, int size);
  /// Of a part that was opened for so many ranks and whose arena here is gone: whether all other members' arenas are
  /// gone too. `gone`: says of a member, by its number in the group, that its process has ended.
  template <typename IsGone>
  static bool has_been_left(HostArena& host, const GroupPlace& place, int size, int own, const IsGone& gone) {
    for (int member = 0; member < size; ++member) {
      if (member != own && !has_left(host, place, size, own, member) && !gone(member)) {
        return false;
      }
    }
    return true;
  }
  /// Gives the memory back. Nobody may use it any more.
  static void close(HostArena& host, const GroupPlace& place) { host.discard(place.offset, place.bytes); }

  int rank() const override { return own_; }
  int size() const override { return layout_.size; }
  const RegionLayout& layout() const override { return layout_; }
  std::byte* region(int rank) const override { return regions_[static_cast<std::size_t>(rank)]; }
  const PeerInfo& peer(int rank) const override { return host_.peer(host_rank(rank)); }
  int peer_fd(int rank) const override { return host_.peer_fd(host_rank(rank)); }
  int bell_fd() const override { return host_.bell_fd(); }
  void ring_after_fence(int rank) override;
  void ring_others_after_fence() override;
  Status need_slots(std::size_t bytes) override;
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
  static bool has_left(HostArena& host, const GroupPlace& place, int size, int own, int member);
  const GroupMember& member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  int host_rank(int rank) const { return member(rank).rank; }
  /// Of the group's heap, in the host's.
  std::size_t heap_start() const { return place_.offset + layout_.heap_offset(); }

  HostArena& host_;
  const std::vector<GroupMember> members_;
  const GroupPlace place_;
  int own_ = 0;
  RegionLayout layout_;
  std::vector<std::byte*> regions_;   ///< by member
  std::size_t ready_slot_bytes_ = 0;  ///< of each slot
};

}  // namespace ronde::transport
