#include "collectives/gather_list.h"

#include <algorithm>

#include "base/copy_bytes.h"
#include "collectives/stream_copy.h"

namespace ronde::collectives {

GatherList::GatherList(const Plan& plan) {
  segments_.reserve(plan.members.size());
  for (const PlanMember& member : plan.members) {
    append(member.input.data, member.output.data, member.input.bytes());
  }
}

void GatherList::append(const void* from, void* to, std::size_t bytes) {
  if (bytes > 0) {
    segments_.push_back({static_cast<const std::byte*>(from), static_cast<std::byte*>(to), this->bytes() + bytes});
  }
}

void GatherList::rebind(std::size_t index, const void* from, void* to) {
  Segment& segment = segments_[index];
  segment.from = static_cast<const std::byte*>(from);
  segment.to = static_cast<std::byte*>(to);
}

bool GatherList::any_in_place() const {
  return std::any_of(segments_.begin(), segments_.end(), [](const Segment& each) { return each.from == each.to; });
}

std::size_t GatherList::segment_at(std::size_t position) const {
  const auto found = std::upper_bound(segments_.begin(), segments_.end(), position,
                                      [](std::size_t at, const Segment& segment) { return at < segment.end; });
  return static_cast<std::size_t>(found - segments_.begin());
}

void GatherList::gather(std::size_t begin, std::size_t end, std::byte* to) const {
  for_each(begin, end, [&](const std::byte* from, std::byte*, std::size_t bytes, std::size_t at) {
    copy_bytes(to + (at - begin), from, bytes);
  });
}

void GatherList::scatter(std::size_t begin, std::size_t end, const std::byte* from) const {
  for_each(begin, end, [&](const std::byte*, std::byte* to, std::size_t bytes, std::size_t at) {
    copy_bytes(to, from + (at - begin), bytes);
  });
}

void GatherList::scatter_streaming(std::size_t begin, std::size_t end, const std::byte* from) const {
  for_each(begin, end, [&](const std::byte*, std::byte* to, std::size_t bytes, std::size_t at) {
    stream_copy(to, from + (at - begin), bytes);
  });
}

void GatherList::carry_over(std::size_t begin, std::size_t end) const {
  for_each(begin, end, [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t) {
    if (from != to) {
      move_bytes(to, from, bytes);
    }
  });
}

}  // namespace ronde::collectives
