// MappedArena: the HostArena of a job, over memory that shm or loopback has come by. Views of it (group_arena.h) are
// all other HostArenas.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "transport/arena/arena.h"
#include "transport/arena/mapping.h"
#include "transport/arena/memory_promises.h"

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

  MappedArena(int rank, const RegionLayout& layout, std::vector<Member> members,
              MemoryPromises::Room room = &MemoryPromises::room_here)
      : HostArena(parts_of(rank, layout, members, std::move(room))), members_(std::move(members)) {}

  Status need_slots(std::size_t) override { return {}; }  // they exist from the meeting on

 private:
  /// They point into the members, of which the own memfd goes over to the heap.
  static Parts parts_of(int rank, const RegionLayout& layout, std::vector<Member>& members, MemoryPromises::Room room);

  const std::vector<Member> members_;
};

}  // namespace ronde::transport
