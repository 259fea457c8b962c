// HostArena: what the ranks of one host share. One region of memory per rank, mapped by all of them, a bell per rank,
// and the knowledge of who the peers are and whether they live. Implemented by shm (processes, one memfd each) and by
// loopback (engines in one process, for tests).
//
// A region is laid out by RegionLayout: control lines, message rings, staging. Every word in a region has exactly one
// writer, the owner of the region, except the bell (see bell.h). Words of different purpose lie on lines of 128 bytes
// of their own, since processors fetch cache lines in pairs. Between processes the rule is enforced: of a peer's
// region only the pages of the control block are mapped writable.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace ronde::transport {

inline constexpr std::size_t kLineBytes = 128;
/// Ranks of one host; the quiet set has one bit for each.
inline constexpr int kMaxHostRanks = 256;

/// Who sleeps in this rank: one of the states of bell.h, which holds the two sides of it.
struct alignas(kLineBytes) BellLine {
  std::atomic<std::uint32_t> state{0};
};

/// Where a rank stands in the life of the world.
struct alignas(kLineBytes) StateLine {
  std::atomic<std::uint32_t> left{0};  ///< 1: has shut down or is exiting in order; its death is no failure
  std::atomic<std::uint64_t> quiet[kMaxHostRanks / 64] =
      {};  ///< the ranks it knows dead, stored once it touches no shared memory any more
};

/// One flag of the data plane: a count that only grows. Store release after the data it announces, load acquire.
struct alignas(kLineBytes) TickLine {
  std::atomic<std::uint64_t> value{0};
};

/// The flags of one group's collectives on this host; what they promise is derived in collectives/host/channel.h.
struct TickLines {
  TickLine published;  ///< my input of this tick is in my staging slot
  TickLine reduced;    ///< my slice of this tick is in my result slot, and I read nobody's input of this tick any more
  TickLine copied;     ///< I read nothing of this tick any more, from anybody
};

struct ControlBlock {
  BellLine bell;
  StateLine state;
  TickLines ticks;
};

/// Where things lie in a region. A pure function of the world: the same on every rank.
///
///     control block | per peer: ring (a line of counters, then payload) | per peer: tail line | inputs | results
struct RegionLayout {
  int size = 1;                     ///< ranks on the host
  std::size_t ring_bytes = 16384;   ///< payload of the message ring to each peer, a power of two
  std::size_t slot_bytes = 262144;  ///< one staging slot: the input of one tick; a multiple of kLineBytes
  int slots = 4;                    ///< ticks in flight, at least 2

  /// The layout that suits a host with `size` ranks, 1 <= size <= kMaxHostRanks: the defaults for 2 to 8; smaller
  /// rings and slots for more, since everybody's rings grow with the square of the ranks and everybody's slots
  /// together should stay in the processor's cache; next to nothing for 1, which stages nothing.
  static RegionLayout for_size(int size);

  /// INVALID_ARGUMENT with the number that cannot work, else ok.
  Status check() const;

  std::size_t ring_offset(
      int peer) const;  ///< counters (kLineBytes), then payload, of the ring from the owner to `peer`
  std::size_t tail_offset(int peer) const;    ///< line with what the owner has consumed of the ring from `peer` to it
  std::size_t input_offset(int slot) const;   ///< staging slot for the owner's input
  std::size_t result_offset(int slot) const;  ///< staging slot for the owner's reduced slice
  std::size_t result_bytes() const;  ///< room in a result slot: slot_bytes / size rounded up to a line, at least a line
  std::size_t total_bytes() const;   ///< rounded up to pages

  /// "2 ranks, 4 slots of 262144 bytes, rings of 16384 bytes"
  std::string text() const;
  bool operator==(const RegionLayout&) const = default;
};

struct PeerInfo {
  std::string host;
  int pid = 0;  ///< as the peer itself sees it; for messages only
};

class HostArena {
 public:
  virtual ~HostArena() = default;
  virtual int rank() const = 0;  ///< index among the ranks of this host
  virtual int size() const = 0;
  virtual const RegionLayout& layout() const = 0;
  virtual std::byte* region(int rank) const = 0;
  virtual const PeerInfo& peer(int rank) const = 0;
  /// A descriptor that becomes readable when the peer's process has ended (a pidfd), -1 if there is none. Owned by
  /// the arena.
  virtual int peer_fd(int rank) const = 0;
  /// An eventfd that peers write to wake this rank's engine thread. Owned by the arena.
  virtual int bell_fd() const = 0;
  /// Wakes whoever sleeps in `rank` (its own rank included), if anyone does. Call after storing what it shall see.
  /// Never blocks; any thread.
  virtual void ring(int rank) = 0;
  /// Rings every rank but this one, at the price of one memory fence in all.
  virtual void ring_others() = 0;

  ControlBlock& control(int rank) const { return *reinterpret_cast<ControlBlock*>(region(rank)); }
};

}  // namespace ronde::transport
