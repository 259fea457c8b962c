#include "engine/group_places.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace ronde::engine {

namespace {

transport::HeapRange groups_range(const transport::HostArena& host) {
  const transport::HeapParts parts = transport::HeapParts::of(host.layout());
  return {static_cast<std::int64_t>(parts.groups), static_cast<std::int64_t>(parts.callers)};
}

}  // namespace

GroupPlaces::GroupPlaces(transport::HostArena& arena, std::function<bool(int)> has_ended)
    : arena_(arena), has_ended_(std::move(has_ended)), map_(groups_range(arena)) {}

Result<GroupPart> GroupPlaces::reserve(const std::vector<int>& ranks) {
  const int size = static_cast<int>(ranks.size());
  std::lock_guard lock(mutex_);
  sweep();
  const auto call = static_cast<int>(std::find(calls_.begin(), calls_.end(), false) - calls_.begin());
  std::size_t bytes = transport::GroupArena::usual_bytes(size, map_.bytes_free());
  std::optional<std::int64_t> offset;
  if (call < transport::kCallBits) {
    offset = map_.allocate(bytes, transport::kHugePageBytes);
    if (!offset) {
      bytes = transport::GroupArena::least_bytes(size);  // what is left may be in pieces
      offset = map_.allocate(bytes, transport::kHugePageBytes);
    }
  }
  if (!offset) {
    return Status::error(Code::out_of_memory, "no room for another process set: this rank belongs to " +
                                                  std::to_string(std::count(calls_.begin(), calls_.end(), true)) +
                                                  " of " + std::to_string(transport::kCallBits) +
                                                  " at most, and may share " +
                                                  std::to_string(arena_.layout().heap_bytes) +
                                                  " bytes of address space (ulimit -v); remove one that is not needed");
  }
  GroupPart part{{static_cast<std::size_t>(*offset), bytes}, call, 0, ranks};
  part.own = static_cast<int>(std::find(ranks.begin(), ranks.end(), arena_.rank()) - ranks.begin());
  if (Status opened = transport::GroupArena::open(arena_, part.place, size); !opened) {
    map_.free(*offset);
    return opened;
  }
  calls_.resize(std::max(calls_.size(), static_cast<std::size_t>(call) + 1));
  calls_[static_cast<std::size_t>(call)] = true;
  return part;
}

void GroupPlaces::sweep() {
  std::erase_if(left_, [this](const GroupPart& part) {
    const auto gone = [&](int member) { return has_ended_(part.ranks[static_cast<std::size_t>(member)]); };
    const bool is_free =
        transport::GroupArena::has_been_left(arena_, part.place, static_cast<int>(part.ranks.size()), part.own, gone);
    if (is_free) {
      free(part);
    }
    return is_free;
  });
}

void GroupPlaces::free(const GroupPart& part) {
  transport::GroupArena::close(arena_, part.place);
  map_.free(static_cast<std::int64_t>(part.place.offset));
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

}  // namespace ronde::engine
