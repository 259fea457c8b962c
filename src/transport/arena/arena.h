// HostArena: what the ranks of one host share. One region of memory per rank, mapped by all of them, a bell per rank,
// and the knowledge of who the peers are and whether they live. Implemented by shm (processes, one memfd each) and by
// loopback (engines in one process, for tests).
//
// A region is laid out by RegionLayout: control lines, message rings, staging, heap. Up to the heap every word has
// exactly one writer, the owner of the region, except bell and calls (bell.h, group_calls.h). Words of different
// purpose lie on lines of 128 bytes of their own, since processors fetch cache lines in pairs. Between processes the
// rule is enforced: of a peer's region only the pages of the control block and the heap are mapped writable.
//
// The heap is address space, hundreds of gigabytes of it, of which a page costs memory only once it exists: commit()
// makes pages, discard() gives them back. So what is shared can grow for the life of the job although descriptors are
// passed only once. Who uses which part of it is not decided here: of buckets the coordinator gives out offsets that
// hold in every rank's region alike, of shared buffers and groups each rank its own. A page that was never committed
// must not be touched: where memory is short the kernel would answer with a signal, and touched in a peer's heap it
// would be charged to the toucher.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "transport/bell.h"
#include "transport/group_calls.h"
#include "transport/line.h"
#include "transport/peer_info.h"
#include "transport/rules_line.h"

namespace ronde::transport {

/// Ranks of one host; the quiet set has one bit for each.
inline constexpr int kMaxHostRanks = 256;
/// Regions and heaps begin at multiples of this in every process, so that the kernel can use huge pages.
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
/// What a rank's heap has if the process may have that much address space; what LocalWorld and loopback have.
inline constexpr std::size_t kMostHeapBytes = std::size_t{256} << 30;
inline constexpr std::size_t kLoopbackHeapBytes = std::size_t{128} << 20;

/// Where a rank stands in the life of the world.
struct alignas(kLineBytes) StateLine {
  std::atomic<std::uint32_t> left{0};  ///< a Departure (peers.h)
  std::atomic<std::uint64_t> quiet[kMaxHostRanks / 64] =
      {};  ///< the ranks it knows dead, stored once it touches no shared memory any more
};

/// That this rank has left the replay (docs/agreement.md): it publishes no bucket of this epoch any more.
struct alignas(kLineBytes) BreakLine {
  std::atomic<std::uint32_t> frozen{0};    ///< epoch; release, after the last word of a bucket was stored
  std::atomic<std::uint32_t> reason{0};    ///< for reports
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
/// for more must (MappedArena::commit).
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

/// Where things lie in a region. A pure function of the world: the same on every rank.
///
///     control block | per peer: ring (a line of counters, then payload) | per peer: tail line | inputs | results
///     | from the next multiple of kHugePageBytes on, if there is one: heap
///
/// What lies before the heap exists from the meeting on (at most 2 MiB); of the heap nothing does.
struct RegionLayout {
  int size = 1;                     ///< ranks on the host
  std::size_t ring_bytes = 16384;   ///< payload of the message ring to each peer, a power of two
  std::size_t slot_bytes = 262144;  ///< one staging slot: the input of one tick; a multiple of kLineBytes
  int slots = 4;                    ///< ticks in flight, at least 2
  std::size_t heap_bytes = 0;       ///< a multiple of kHugePageBytes; 0: this host can share no tensors

  /// The layout that suits a host with `size` ranks, 1 <= size <= kMaxHostRanks: the defaults for 2 to 8; smaller
  /// rings and slots for more, since everybody's rings grow with the square of the ranks and everybody's slots
  /// together should stay in the processor's cache; next to nothing for 1, which stages nothing. The heap is what one
  /// would like to have: kMostHeapBytes, less for so many ranks that a process would map more than 4 TiB.
  static RegionLayout for_size(int size);

  /// INVALID_ARGUMENT with the number that cannot work, else ok.
  Status check() const;

  std::size_t ring_offset(
      int peer) const;  ///< counters (kLineBytes), then payload, of the ring from the owner to `peer`
  std::size_t tail_offset(int peer) const;    ///< line with what the owner has consumed of the ring from `peer` to it
  std::size_t input_offset(int slot) const;   ///< staging slot for the owner's input
  std::size_t result_offset(int slot) const;  ///< staging slot for the owner's reduced slice
  std::size_t result_bytes() const;  ///< room in a result slot: slot_bytes / size rounded up to a line, at least a line
  std::size_t eager_bytes() const;   ///< all before the heap, rounded up to pages
  std::size_t heap_offset() const;
  std::size_t total_bytes() const;  ///< rounded up to pages

  /// "2 ranks, 4 slots of 262144 bytes, rings of 16384 bytes"
  std::string text() const;
  bool operator==(const RegionLayout&) const = default;
};

/// How the heap of a host is divided: first what the engine of all its ranks needs for itself, then the parts of groups
/// (group_arena.h), then what callers get.
struct HeapParts {
  std::size_t groups = 0;  ///< where they begin
  std::size_t callers = 0;

  static HeapParts of(const RegionLayout& host);
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
  /// An eventfd that is written to wake who sleeps in poll() in this rank: its engine thread mostly. Owned by the
  /// arena.
  virtual int bell_fd() const = 0;
  /// Wakes whoever sleeps in `rank` (its own rank included), if anyone does. Call after storing what it shall see.
  /// Never blocks; any thread.
  void ring(int rank) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ring_after_fence(rank);
  }
  /// Rings every rank but this one, at the price of one memory fence in all.
  void ring_others() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ring_others_after_fence();
  }
  /// The same for a caller that has put a seq_cst fence between its stores and this call.
  virtual void ring_after_fence(int rank) = 0;
  virtual void ring_others_after_fence() = 0;

  /// Makes the first `bytes` of each of this rank's own staging slots exist, or more. Before they are used: an arena
  /// may have left them out until now. OUT_OF_MEMORY as commit().
  virtual Status need_slots(std::size_t bytes) = 0;
  /// Makes these pages of this rank's own heap exist, zero where they did not before, and maps them here; huge pages
  /// for what is large enough, where the kernel has them for shared memory. OUT_OF_MEMORY, without a signal and without
  /// waking the kernel's killer, if the machine or the container has no room for as much from every rank of the host;
  /// then nothing of the range exists any more. `offset` counts from the start of the heap. Takes about 0.5 us a page
  /// of 4 KiB. Any thread.
  virtual Status commit(std::size_t offset, std::size_t bytes) = 0;
  /// Maps the ranges that every rank has committed here, so that their first use meets no page faults. Optional; call
  /// it after all have committed.
  virtual void prefault(std::size_t offset, std::size_t bytes) = 0;
  /// Gives the whole pages within the range of this rank's own heap back: they are zero if committed again. Nobody may
  /// use them any more.
  virtual void discard(std::size_t offset, std::size_t bytes) = 0;
  /// From now on heap_offset_of() knows no byte of the pages that these bytes of the own heap touch. Any thread.
  virtual void withdraw(std::size_t offset, std::size_t bytes) = 0;
  /// Whether any byte of the range is withdrawn. Any thread.
  virtual bool is_withdrawn(std::size_t offset, std::size_t bytes) const = 0;
  /// Makes the pages that these bytes of the own heap touch memory of this process alone, for good: whoever is in the
  /// middle of a store to them stores elsewhere. What lies beside the bytes in their first and last page keeps its
  /// contents, whatever this process stores there meanwhile; theirs are lost. On an error some pages are still shared.
  /// Nothing happens where the arena's ranks are one process. Requires: withdrawn; no rank works on what lies in these
  /// pages, but for these bytes.
  virtual Status make_private(std::size_t offset, std::size_t bytes) = 0;
  /// While a copy of this lives, this rank's own region stays mapped, also when the arena is gone: what lies in its
  /// heap is ordinary memory then. The peers' regions go with the arena.
  virtual std::shared_ptr<const void> own_memory() const = 0;
  /// So much of the heap, from its start, is the engine's on this arena; the rest belongs to others.
  virtual std::size_t engine_bytes() const = 0;

  /// Null if there is no heap.
  std::byte* heap(int rank) const { return layout().heap_bytes == 0 ? nullptr : region(rank) + layout().heap_offset(); }
  /// Where in this rank's own heap these bytes lie, -1 if not all of them lie there or some are withdrawn.
  std::int64_t heap_offset_of(const void* data, std::size_t bytes) const;

  ControlBlock& control(int rank) const { return *reinterpret_cast<ControlBlock*>(region(rank)); }
};

}  // namespace ronde::transport
