// HostReduceScatter: a reduce-scatter between hosts of several ranks each, which sends over the wire one partial result
// of each host for each part, not one value of each of its ranks. Parts are cut into slices:
//
//     phase 1 of a slice, in a host  every rank sends the others of its host what these carry (carried_parts.h), as one
//                                    message; each reduces what it carries, in the order of the host's ranks
//     phase 2, between hosts         every rank sends the partial results to the ranks whose parts they are, which
//                                    reduce them in the order of hosts
//
// Of N bytes of all parts a host of equal ones sends and receives (H-1)/H N, where an exchange (exchange_schedule.h)
// has as many times that as the host has ranks. Of a reduce, where the root alone has a part, each other host sends N.
// Each value is reduced in one place in a fixed order; which ranks' are added first is not what it is in an exchange.
#pragma once

#include <memory>
#include <vector>

#include "collectives/gather_list.h"
#include "collectives/schedule/carried_parts.h"
#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// The lists of host_reduce_scatter_schedule(). `own`: where this rank's part is written; `inputs`: by rank, where this
/// rank's values of that one's part are read.
std::vector<GatherList> host_reduce_scatter_lists(const HostParts& all, GatherList own,
                                                  const std::vector<GatherList>& inputs);

/// Combination 0 is of the ranks of a host, 1 of the hosts' partial results. No input may lie in the output, but this
/// rank's own values of its part just where they are reduced to, if no other rank has a part. Requires:
/// all.layout.is_hierarchy().
std::unique_ptr<Schedule> host_reduce_scatter_schedule(HostParts all);

}  // namespace ronde::collectives
