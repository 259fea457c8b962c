// HostGather: an all-gather between hosts of several ranks each, which sends every part over the wire once to each
// other host, not once to each of its ranks. Parts are cut into slices:
//
//     phase 1 of a slice, between hosts  every rank sends the slice of its part to its carrier on each other host
//                                        (carried_parts.h)
//     phase 2, in a host                 every rank sends the others of its host the slices that it has carried, its
//                                        own among them, as one message
//
// Of parts of n bytes on H hosts of L ranks a host sends and receives (H-1) L n, where an exchange
// (exchange_schedule.h) has L times as much; a rank sends H-1 + L-1 messages a slice, where an exchange has H L - 1.
#pragma once

#include <memory>
#include <vector>

#include "collectives/gather_list.h"
#include "collectives/schedule/carried_parts.h"
#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// The lists of host_gather_schedule(). `parts`: by rank, where its part is written, and that of this rank also where
/// it is read.
std::vector<GatherList> host_gather_lists(const HostParts& all, const std::vector<GatherList>& parts);

/// Requires: all.layout.is_hierarchy().
std::unique_ptr<Schedule> host_gather_schedule(HostParts all);

}  // namespace ronde::collectives
