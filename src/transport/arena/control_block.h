// The control block: the words at the beginning of a region by which the ranks of a host know of each other.
//
// Every word has exactly one writer, the owner of the region, except bell and calls (bell.h, group_calls.h). Words of
// different purpose lie on lines of 128 bytes of their own, since processors fetch cache lines in pairs.
#pragma once

#include <atomic>
#include <cstdint>

#include "transport/bell.h"
#include "transport/group_calls.h"
#include "transport/line.h"
#include "transport/rules_line.h"

namespace ronde::transport {

/// Ranks of one host; the quiet set has one bit for each.
inline constexpr int kMaxHostRanks = 256;

/// Where a rank stands in the life of the world.
struct alignas(kLineBytes) StateLine {
  std::atomic<std::uint32_t> left{0};  ///< a Departure (peers.h)
  std::atomic<std::uint64_t> quiet[kMaxHostRanks / 64] =
      {};  ///< the ranks it knows dead, stored once it touches no shared memory any more
};

/// That this rank has left the replay (docs/agreement.md): it publishes no bucket of this epoch any more.
struct alignas(kLineBytes) BreakLine {
  std::atomic<std::uint32_t> frozen{0};    ///< epoch; release, after the last word of a bucket was stored
  std::atomic<std::uint32_t> reason{0};    ///< a Reason; for who looks at a job with a debugger
  std::atomic<std::uint32_t> given_up{0};  ///< 1: as Peers::say_given_up() says
};

/// One flag of the data plane: a count that only grows. Store release after the data it announces, load acquire.
struct alignas(kLineBytes) TickLine {
  std::atomic<std::uint64_t> value{0};
};

/// The flags of one group's collectives on this host; what they promise is derived in collectives/shm/channel.h.
struct TickLines {
  TickLine published;  ///< my input of this tick is in my staging slot
  TickLine reduced;    ///< my slice of this tick is in my result slot, and I read nobody's input of this tick any more
  TickLine copied;     ///< I read nothing of this tick any more, from anybody
};

/// Shared memory that this rank is about to make, in bytes: the kernel does not count it as used yet, so that who asks
/// for more must (memory_promises.h).
struct alignas(kLineBytes) PromiseLine {
  std::atomic<std::uint64_t> bytes{0};
};

struct ControlBlock {
  BellLine bell;
  StateLine state;
  BreakLine breaks;
  TickLines ticks;
  RulesLine rules;
  CallLine calls;
  PromiseLine promise;
};

}  // namespace ronde::transport
