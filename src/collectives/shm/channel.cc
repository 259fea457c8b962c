#include "collectives/shm/channel.h"

#include <atomic>
#include <cstddef>

#include "collectives/shm/last_comer.h"

namespace ronde::collectives {

using transport::TickLine;
using transport::TickLines;

namespace {

std::uint64_t look(const TickLine& line) { return line.value.load(std::memory_order_acquire); }

}  // namespace

ChannelPlace ChannelPlace::in_arena(const transport::RegionLayout& layout) {
  return {offsetof(transport::ControlBlock, ticks),
          layout.input_offset(0),
          layout.result_offset(0),
          layout.slot_bytes,
          layout.result_bytes(),
          layout.slots};
}

HostChannel::HostChannel(transport::HostArena& arena, const ChannelPlace& place)
    : arena_(arena),
      bells_(arena.bells()),
      place_(place),
      rank_(arena.rank()),
      size_(arena.size()),
      own_(*reinterpret_cast<TickLines*>(arena.region(arena.rank()) + place.flags)),
      seen_(static_cast<std::size_t>(arena.size())),
      pointers_(static_cast<std::size_t>(arena.size())) {
  for (int rank = 0; rank < size_; ++rank) {
    regions_.push_back(arena.region(rank));
  }
}

std::uint64_t HostChannel::begin(std::uint64_t ticks) {
  first_ = last_ + 1;
  last_ += ticks;
  return first_;
}

std::byte* HostChannel::input(int rank, std::uint64_t tick) const {
  return regions_[static_cast<std::size_t>(rank)] + place_.inputs + slot(tick) * place_.slot_bytes;
}

std::byte* HostChannel::result(int rank, std::uint64_t tick) const {
  return regions_[static_cast<std::size_t>(rank)] + place_.results + slot(tick) * place_.result_bytes;
}

bool HostChannel::free_to_write(std::uint64_t tick, std::uint64_t Seen::*seen_flag, TickLine TickLines::*line) {
  const auto slots = static_cast<std::uint64_t>(place_.slots);
  if (tick <= slots) {
    return true;
  }
  const std::uint64_t before = tick - slots;
  for (int distance = 1; distance < size_; ++distance) {
    const int peer = after(distance);
    Seen& known = seen(peer);
    if (known.finished >= before || known.*seen_flag >= before) {
      continue;
    }
    known.*seen_flag = look(ticks(peer).*line);
    if (known.*seen_flag < before && !(before < first_ && has_published(peer, first_))) {
      return false;
    }
  }
  return true;
}

void HostChannel::publish(std::uint64_t tick) {
  own_.published.value.store(tick, std::memory_order_release);
  bells_.ring_others();
}

void HostChannel::publish_for_all(std::uint64_t tick) {
  own_.published.value.store(tick, std::memory_order_release);
  wake_others_if_last(bells_, rank_, size_, [&](int peer) { return look(ticks(peer).published) >= tick; });
}

void HostChannel::set_reduced(std::uint64_t tick) {
  own_.reduced.value.store(tick, std::memory_order_release);
  bells_.ring_others();
}

void HostChannel::set_copied(std::uint64_t tick) {
  own_.copied.value.store(tick, std::memory_order_release);
  bells_.ring_others();
}

void HostChannel::finish(std::uint64_t last_tick) {
  own_.reduced.value.store(last_tick, std::memory_order_release);
  set_copied(last_tick);
}

bool HostChannel::has_published(int rank, std::uint64_t tick) {
  Seen& known = seen(rank);
  if (known.published < tick) {
    known.published = look(ticks(rank).published);
  }
  if (known.published >= first_) {  // also if it was seen in an operation before, of a peer that was ahead
    known.finished = first_ - 1;
  }
  return known.published >= tick;
}

bool HostChannel::has_reduced(int rank, std::uint64_t tick) {
  Seen& known = seen(rank);
  if (known.reduced < tick) {
    known.reduced = look(ticks(rank).reduced);
  }
  return known.reduced >= tick;
}

bool HostChannel::all_published(std::uint64_t tick) {
  for (int distance = 1; distance < size_; ++distance) {
    if (!has_published(after(distance), tick)) {
      return false;
    }
  }
  return true;
}

bool HostChannel::all_reduced(std::uint64_t tick) {
  for (int distance = 1; distance < size_; ++distance) {
    if (!has_reduced(after(distance), tick)) {
      return false;
    }
  }
  return true;
}

std::vector<int> HostChannel::lacking(TickLine TickLines::*line, std::uint64_t tick) const {
  std::vector<int> ranks;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && look(ticks(peer).*line) < tick) {
      ranks.push_back(peer);
    }
  }
  return ranks;
}

std::vector<int> HostChannel::not_published(std::uint64_t tick) const { return lacking(&TickLines::published, tick); }

std::vector<int> HostChannel::not_reduced(std::uint64_t tick) const { return lacking(&TickLines::reduced, tick); }

std::vector<int> HostChannel::holding(TickLine TickLines::*line, std::uint64_t tick) const {
  const auto slots = static_cast<std::uint64_t>(place_.slots);
  if (tick <= slots) {
    return {};
  }
  std::vector<int> ranks;
  const std::uint64_t before = tick - slots;
  for (const int peer : lacking(line, before)) {
    if (before >= first_ || look(ticks(peer).published) < first_) {
      ranks.push_back(peer);
    }
  }
  return ranks;
}

}  // namespace ronde::collectives
