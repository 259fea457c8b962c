// Shm: the arena of processes on one host: a memfd each, handed over by descriptor. No names, no leftovers: the memory
// is gone with the last process that maps it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "store/store.h"
#include "transport/arena/arena.h"

namespace ronde::transport {

/// Collective among the `size` ranks of one host; `rank` counts among them. Exchanges descriptors through the store
/// under `scope` and scopes that begin with it, and returns when every rank has mapped every region; blocks up to
/// `limit`. That the descriptors work is the proof that the ranks share a host.
///
/// The world's heap is the smallest that some rank has the address space for, maybe none: arena->layout() says.
///
/// Fails on every rank with the same sentence: VERSION_MISMATCH if library or layout differ, else what kept a rank
/// from making or mapping memory. TIMED_OUT names the ranks that did not come, as they count here. `job_ranks`: what
/// other errors call these ranks; empty where they are all of the job's. Requires: layout.size == size.
Result<std::unique_ptr<HostArena>> meet_on_host(store::Store& store, const std::string& scope, int rank, int size,
                                                const RegionLayout& layout, Nanoseconds limit,
                                                std::span<const int> job_ranks = {});

}  // namespace ronde::transport
