#include "transport/arena/group_places.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace ronde::transport {

namespace {

HeapRange groups_range(std::size_t heap_bytes) {
  const HeapParts parts = HeapParts::of(heap_bytes);
  return {static_cast<std::int64_t>(parts.groups), static_cast<std::int64_t>(parts.callers)};
}

}  // namespace

GroupPlaces::GroupPlaces(OwnHeap& heap, int rank, bool shares_memory)
    : heap_(heap), rank_(rank), shares_memory_(shares_memory), map_(groups_range(heap.size_bytes())) {}

Result<GroupPart> GroupPlaces::reserve(const std::vector<int>& ranks, const HasEnded& has_ended) {
  std::lock_guard lock(mutex_);
  sweep(has_ended);
  GroupPart part;
  part.call = static_cast<int>(std::find_if(parts_.begin(), parts_.end(), [](const auto& each) { return !each; }) -
                               parts_.begin());
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
  parts_.resize(std::max(parts_.size(), static_cast<std::size_t>(part.call) + 1));
  parts_[static_cast<std::size_t>(part.call)] = part;
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
  if (Status opened = GroupArena::open(heap_, place, size); !opened) {
    map_.free(*offset);
    return opened;
  }
  return place;
}

/// Requires: the lock, as what follows.
Status GroupPlaces::is_full() const {
  return Status::error(Code::out_of_memory, "no room for another process set: this rank belongs to " +
                                                std::to_string(count_taken()) + " of " + std::to_string(kCallBits) +
                                                " at most, and may share " + std::to_string(heap_.size_bytes()) +
                                                " bytes of address space (ulimit -v); remove one that is not needed");
}

std::size_t GroupPlaces::count_taken() const {
  return static_cast<std::size_t>(
      std::count_if(parts_.begin(), parts_.end(), [](const auto& part) { return part.has_value(); }));
}

void GroupPlaces::sweep(const HasEnded& has_ended) {
  std::erase_if(left_, [&](int call) {
    const GroupPart& part = at(call);
    const auto gone = [&](int member) { return has_ended(part.ranks[static_cast<std::size_t>(member)]); };
    const bool is_free = !shares_memory_ || GroupArena::has_been_left(
                                                heap_, part.place, static_cast<int>(part.ranks.size()), part.own, gone);
    if (is_free) {
      free(call);
    }
    return is_free;
  });
}

void GroupPlaces::free(int call) {
  if (shares_memory_) {
    GroupArena::close(heap_, at(call).place);
    map_.free(static_cast<std::int64_t>(at(call).place.offset));
  }
  parts_[static_cast<std::size_t>(call)].reset();
}

void GroupPlaces::give_back(int call) {
  std::lock_guard lock(mutex_);
  free(call);
}

void GroupPlaces::leave(int call, const HasEnded& has_ended) {
  std::lock_guard lock(mutex_);
  left_.push_back(call);
  sweep(has_ended);
}

GroupPart GroupPlaces::part(int call) const {
  std::lock_guard lock(mutex_);
  return at(call);
}

std::size_t GroupPlaces::taken() const {
  std::lock_guard lock(mutex_);
  return count_taken();
}

}  // namespace ronde::transport
