// HostArena: the memory that ranks of one host share. One region for each rank, mapped by all of them, and what goes
// with it, each of its own: the pages of this rank's own heap, the bells of the ranks, and their processes. Made by shm
// (processes, one memfd each) and by loopback (engines in one process: in tests, and a rank alone); views of such an
// arena are GroupArena and OwnArena.
//
// A region is laid out by RegionLayout: control block, message rings, staging, heap. Up to the heap every word has
// exactly one writer, the owner of the region, but for two lines of the control block (control_block.h). Between
// processes the rule is enforced: of a peer's region only the pages of the control block and the heap are mapped
// writable.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "transport/arena/control_block.h"
#include "transport/arena/host_bells.h"
#include "transport/arena/own_heap.h"
#include "transport/arena/region_layout.h"
#include "transport/peer_info.h"

namespace ronde::transport {

/// The process of a rank, as the others know it.
struct HostProcess {
  PeerInfo info;
  int end_fd = -1;  ///< becomes readable when the process has ended (a pidfd), -1: there is none; owned by the arena
};

class HostArena {
 public:
  virtual ~HostArena() = default;
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  int rank() const { return parts_.rank; }  ///< index among the ranks of this host
  int size() const { return parts_.layout.size; }
  const RegionLayout& layout() const { return parts_.layout; }

  // ---- Memory, by rank

  std::byte* region(int rank) const { return parts_.regions[static_cast<std::size_t>(rank)]; }
  ControlBlock& control(int rank) const { return *reinterpret_cast<ControlBlock*>(region(rank)); }
  /// Null if there is no heap.
  std::byte* heap(int rank) const { return layout().heap_bytes == 0 ? nullptr : region(rank) + layout().heap_offset(); }
  /// Makes the first `bytes` of each of this rank's own staging slots exist, or more. Before they are used: an arena
  /// may have left them out until now. OUT_OF_MEMORY as OwnHeap::commit().
  virtual Status need_slots(std::size_t bytes) = 0;
  /// Maps the ranges of the peers' heaps here, so that their first use meets no page faults. Optional; call it after
  /// all ranks have committed theirs.
  void prefault(std::size_t offset, std::size_t bytes) const;

  // ---- What goes with it

  OwnHeap& own_heap() { return *parts_.own_heap; }
  const OwnHeap& own_heap() const { return *parts_.own_heap; }
  const HostBells& bells() const { return parts_.bells; }
  const HostProcess& process(int rank) const { return parts_.processes[static_cast<std::size_t>(rank)]; }

 protected:
  /// Of what an arena is made; vectors by rank.
  struct Parts {
    int rank = 0;
    RegionLayout layout;
    std::vector<std::byte*> regions;
    std::unique_ptr<OwnHeap> own_heap;
    HostBells bells;
    std::vector<HostProcess> processes;
  };

  explicit HostArena(Parts parts) : parts_(std::move(parts)) {}

 private:
  const Parts parts_;
};

}  // namespace ronde::transport
