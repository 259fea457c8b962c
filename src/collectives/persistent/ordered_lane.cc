#include "collectives/persistent/ordered_lane.h"

#include <memory>

#include "collectives/slices.h"

namespace ronde::collectives {

namespace {

/// Offsets from the beginning of the lane: flags, ring, inputs, results.
constexpr std::size_t kRingAt = round_up_to_line(sizeof(transport::TickLines));
constexpr std::size_t kInputsAt = kRingAt + round_up_to_line(OrderedLane::kEntries * sizeof(std::uint64_t));

/// As the region's own channel has them.
ChannelPlace place(int ranks, std::size_t begin) {
  const transport::RegionLayout layout = transport::RegionLayout::for_size(ranks);
  ChannelPlace place;
  place.slots = layout.slots;
  place.slot_bytes = layout.slot_bytes;
  place.result_bytes = layout.result_bytes();
  place.flags = begin;
  place.inputs = begin + kInputsAt;
  place.results = place.inputs + static_cast<std::size_t>(place.slots) * place.slot_bytes;
  return place;
}

}  // namespace

std::size_t OrderedLane::bytes(int ranks) {
  const ChannelPlace lane = place(ranks, 0);
  return lane.results + static_cast<std::size_t>(lane.slots) * lane.result_bytes;
}

OrderedLane::OrderedLane(transport::HostArena& arena, std::size_t heap_offset, const Thresholds& thresholds)
    : bells_(arena.bells()),
      ring_(reinterpret_cast<std::atomic<std::uint64_t>*>(arena.heap(0) + heap_offset + kRingAt)),
      channel_(arena, place(arena.size(), arena.layout().heap_offset() + heap_offset)),
      thresholds_(thresholds) {
  new (arena.heap(arena.rank()) + heap_offset) transport::TickLines();
  if (is_leader()) {
    for (std::uint64_t i = 0; i < kEntries; ++i) {
      ring_[i].store(0, std::memory_order_relaxed);
    }
  }
}

void OrderedLane::append(std::uint32_t bucket) {
  ++appended_;
  entry(appended_).store(appended_ << 32 | bucket, std::memory_order_release);
  bells_.ring_others();
}

std::optional<std::uint32_t> OrderedLane::head() const {
  const std::uint64_t word = entry(next_).load(std::memory_order_acquire);
  if (word >> 32 != (next_ & 0xffffffffu)) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(word);
}

}  // namespace ronde::collectives
