#include "transport/group_places.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace ronde::transport {

namespace {

HeapRange groups_range(const HostArena& host) {
  const HeapParts parts = HeapParts::of(host.layout());
  return {static_cast<std::int64_t>(parts.groups), static_cast<std::int64_t>(parts.callers)};
}

}  // namespace

GroupPlaces::GroupPlaces(HostArena& arena, int rank, bool shares_memory, std::function<bool(int)> has_ended)
    : arena_(arena),
      rank_(rank),
      shares_memory_(shares_memory),
      has_ended_(std::move(has_ended)),
      map_(groups_range(arena)) {}

Result<GroupPart> GroupPlaces::reserve(const std::vector<int>& ranks) {
  std::lock_guard lock(mutex_);
  sweep();
  GroupPart part;
  part.call = static_cast<int>(std::find(calls_.begin(), calls_.end(), false) - calls_.begin());
  if (part.call >= kCallBits) {
    return is_full();
  }
  if (shares_memory_) {
    RONDE_ASSIGN_OR_RETURN(part.place, reserve_memory(static_cast<int>(ranks.size())));
  } else {
    part.number = (static_cast<std::uint64_t>(rank_) << 32U) + next_number_++;
  }
  part.ranks = ranks;
  part.own = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
  calls_.resize(std::max(calls_.size(), static_cast<std::size_t>(part.call) + 1));
  calls_[static_cast<std::size_t>(part.call)] = true;
  return part;
}

Result<GroupPlace> GroupPlaces::reserve_memory(int size) {
  std::size_t bytes = GroupArena::usual_bytes(size, map_.bytes_free());
  std::optional<std::int64_t> offset = map_.allocate(bytes, kHugePageBytes);
  if (!offset) {
    bytes = GroupArena::least_bytes(size);  // what is left may be in pieces
    offset = map_.allocate(bytes, kHugePageBytes);
  }
  if (!offset) {
    return is_full();
  }
  const GroupPlace place{static_cast<std::size_t>(*offset), bytes};
  if (Status opened = GroupArena::open(arena_, place, size); !opened) {
    map_.free(*offset);
    return opened;
  }
  return place;
}

Status GroupPlaces::is_full() const {
  return Status::error(Code::out_of_memory, "no room for another process set: this rank belongs to " +
                                                std::to_string(std::count(calls_.begin(), calls_.end(), true)) +
                                                " of " + std::to_string(kCallBits) +
                                                " at most, and may share " +
                                                std::to_string(arena_.layout().heap_bytes) +
                                                " bytes of address space (ulimit -v); remove one that is not needed");
}

void GroupPlaces::sweep() {
  std::erase_if(left_, [this](const GroupPart& part) {
    const auto gone = [&](int member) { return has_ended_(part.ranks[static_cast<std::size_t>(member)]); };
    const bool is_free =
        !shares_memory_ ||
        GroupArena::has_been_left(arena_, part.place, static_cast<int>(part.ranks.size()), part.own, gone);
    if (is_free) {
      free(part);
    }
    return is_free;
  });
}

void GroupPlaces::free(const GroupPart& part) {
  if (shares_memory_) {
    GroupArena::close(arena_, part.place);
    map_.free(static_cast<std::int64_t>(part.place.offset));
  }
  calls_[static_cast<std::size_t>(part.call)] = false;
}

void GroupPlaces::give_back(const GroupPart& part) {
  std::lock_guard lock(mutex_);
  free(part);
}

void GroupPlaces::leave(GroupPart part) {
  std::lock_guard lock(mutex_);
  left_.push_back(std::move(part));
  sweep();
}

std::size_t GroupPlaces::taken() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count(calls_.begin(), calls_.end(), true));
}

}  // namespace ronde::transport
