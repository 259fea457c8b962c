// CirculantGather: an all-gather of much between many hosts of equally many ranks, of one each or of several. As
// host_gather_schedule.h, but what goes between hosts takes some turns of few messages (circulant_turns.h) in place of
// one in which each host sends to each.
//
//     phase 0                       every rank puts its own part where it belongs
//     phases 1 to T, between hosts  the ranks of one place on their hosts bring together what they carry
//     phase T+1, in a host          every rank sends the others of its host what it has carried
//
// The bytes are those of host_gather_schedule.h, in H-1 messages for each slice of a rank there and log2(H) at the
// least here.
#pragma once

#include <memory>

#include "collectives/schedule/carried_parts.h"
#include "collectives/schedule/circulant_turns.h"
#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// Its lists are those of host_gather_lists(). `turns`: of as many hosts, each of which has equally many ranks.
std::unique_ptr<Schedule> circulant_gather_schedule(HostParts all, CirculantTurns turns);

}  // namespace ronde::collectives
