#include "transport/arena/group_parts.h"

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

GroupParts::GroupParts(OwnHeap& heap, int rank, bool shares_memory)
    : heap_(heap), rank_(rank), shares_memory_(shares_memory), places_(groups_range(heap.size_bytes())) {}

Result<GroupPart> GroupParts::reserve(const std::vector<int>& ranks, const HasEnded& has_ended) {
  std::lock_guard lock(mutex_);
  sweep(has_ended);
  GroupPart part;
  part.ranks = ranks;
  part.own = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
  const std::optional<int> call = calls_.take();
  if (!call) {
    return is_full();
  }
  part.call = *call;
  if (shares_memory_) {
    Result<GroupPlace> place = open_place(static_cast<int>(ranks.size()));
    if (!place) {
      calls_.give_back(*call);
      return place.status();
    }
    part.place = *place;
  } else {
    part.number = (static_cast<std::uint64_t>(rank_) << 32U) + next_number_++;
  }
  parts_.emplace(*call, part);
  return part;
}

Result<GroupPlace> GroupParts::open_place(int size) {
  const std::optional<GroupPlace> place = places_.reserve(size);
  if (!place) {
    return is_full();
  }
  if (Status opened = open_group_part(heap_, *place, size); !opened) {
    places_.free(*place);
    return opened;
  }
  return *place;
}

/// Requires: the lock, as what follows.
Status GroupParts::is_full() const {
  return Status::error(Code::out_of_memory, "no room for another process set: this rank belongs to " +
                                                std::to_string(parts_.size()) + " of " + std::to_string(kCallBits) +
                                                " at most, and may share " + std::to_string(heap_.size_bytes()) +
                                                " bytes of address space (ulimit -v); remove one that is not needed");
}

void GroupParts::sweep(const HasEnded& has_ended) {
  std::erase_if(left_, [&](int call) {
    const bool is_free = has_been_left(at(call), has_ended);
    if (is_free) {
      free(call);
    }
    return is_free;
  });
}

/// By all members. Where no memory is shared nobody else touches what is this rank's.
bool GroupParts::has_been_left(const GroupPart& part, const HasEnded& has_ended) const {
  const auto gone = [&](int member) { return has_ended(part.ranks[static_cast<std::size_t>(member)]); };
  return !shares_memory_ || is_group_part_left(heap_, part.place, static_cast<int>(part.ranks.size()), part.own, gone);
}

void GroupParts::free(int call) {
  const auto part = parts_.find(call);
  if (shares_memory_) {
    close_group_part(heap_, part->second.place);
    places_.free(part->second.place);
  }
  parts_.erase(part);
  calls_.give_back(call);
}

void GroupParts::give_back(int call) {
  std::lock_guard lock(mutex_);
  free(call);
}

void GroupParts::leave(int call, const HasEnded& has_ended) {
  std::lock_guard lock(mutex_);
  left_.push_back(call);
  sweep(has_ended);
}

GroupPart GroupParts::part(int call) const {
  std::lock_guard lock(mutex_);
  return at(call);
}

std::size_t GroupParts::taken() const {
  std::lock_guard lock(mutex_);
  return parts_.size();
}

}  // namespace ronde::transport
