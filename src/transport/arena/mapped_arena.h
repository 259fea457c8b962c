// MappedArena: the HostArena of a job, over memory that shm or loopback has come by. Views of it (group_arena.h) are
// all other HostArenas.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/unique_fd.h"
#include "transport/arena/arena.h"
#include "transport/arena/mapping.h"
#include "transport/arena/page_ranges.h"

namespace ronde::transport {

class MappedArena final : public HostArena {
 public:
  /// One entry per rank. What several arenas of a process share (loopback) is closed with the last of them.
  struct Member {
    std::shared_ptr<const Mapping> mapping;
    std::byte* region = nullptr;  ///< within the mapping
    std::shared_ptr<const UniqueFd> bell;
    UniqueFd pidfd;
    PeerInfo info;
    UniqueFd memfd = UniqueFd();  ///< the own region's, for kernels that make pages by descriptor only
  };

  /// `room`: how much memory the machine or the container still has.
  using Room = std::function<std::uint64_t()>;

  MappedArena(int rank, const RegionLayout& layout, std::vector<Member> members, Room room = &memory_room_here)
      : rank_(rank), layout_(layout), members_(std::move(members)), room_(std::move(room)) {}

  int rank() const override { return rank_; }
  int size() const override { return layout_.size; }
  const RegionLayout& layout() const override { return layout_; }
  std::byte* region(int rank) const override { return member(rank).region; }
  const PeerInfo& peer(int rank) const override { return member(rank).info; }
  int peer_fd(int rank) const override { return member(rank).pidfd.get(); }
  int bell_fd() const override { return member(rank_).bell->get(); }
  void ring_after_fence(int rank) override;
  void ring_others_after_fence() override;
  Status need_slots(std::size_t) override { return {}; }  // they exist from the meeting on
  Status commit(std::size_t offset, std::size_t bytes) override;
  void prefault(std::size_t offset, std::size_t bytes) override;
  void discard(std::size_t offset, std::size_t bytes) override;
  void withdraw(std::size_t offset, std::size_t bytes) override;
  bool is_withdrawn(std::size_t offset, std::size_t bytes) const override;
  Status make_private(std::size_t offset, std::size_t bytes) override;
  std::shared_ptr<const void> own_memory() const override { return member(rank_).mapping; }
  std::size_t engine_bytes() const override { return HeapParts::of(layout_).groups; }

 private:
  static std::uint64_t memory_room_here();
  std::uint64_t promised();
  std::uint64_t lacking_room();
  const Member& member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }

  int rank_;
  RegionLayout layout_;
  std::vector<Member> members_;
  std::atomic<bool> any_withdrawn_{false};
  mutable std::mutex pages_mutex_;
  PageRanges withdrawn_;  ///< guarded by pages_mutex_; of the own heap
  PageRanges private_;    ///< guarded by pages_mutex_; a part of these
  Room room_;
};

}  // namespace ronde::transport
