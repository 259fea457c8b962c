// Circulant: an all-reduce of what is large between many hosts, of one rank each or of several. As
// hierarchical_schedule.h, but each of the two phases between hosts takes some turns of few messages
// (circulant_turns.h) in place of one in which each host sends to each.
//
//     phase 0, in a host            every rank sends slice j to its host's rank of rail j, which reduces them
//     phases 1 to T, between hosts  the ranks of a rail scatter partial sums of the slice's parts and add what comes
//     phases T+1 to 2T              they gather the reduced parts
//     phase 2T+1, in a host         every rail's rank sends its slice to the others of its host
//
// The bytes are those of the hierarchical schedule, 2 (H-1)/H N for a host, in 2 (H-1) messages for each chunk there
// and 2 log2(H) at the least here. What it costs is turns, of which each takes a message's time on the way: chunks are
// in different phases at the same time, so that the wire has something to carry meanwhile.
//
// Which values are added first depends on the part and on the turns, so floating sums may differ in the last bits from
// those of other schedules, and with other turns; and 16-bit sums are rounded at each message of a turn. Each value
// is reduced in one place in a fixed order, so all ranks have the same bits.
//
// Partial sums lie in scratch memory. What a host has sent of them may be written over when all parts of the chunk have
// come reduced: then everybody has used it.
#pragma once

#include <memory>

#include "collectives/schedule/circulant_turns.h"
#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// `bytes`: of the whole tensor, more than 0; `slice`: of a rail's share of a chunk at most, a multiple of 128;
/// `rails`: from 1 to layout.fewest(). List 0 goes from the inputs to the outputs, list 1 from the outputs to
/// themselves. Combination 0 is of the ranks of a host, 1 the last of the hosts' partial results, 2 of two of them
/// before. `turns`: of as many hosts. `sends_inputs`: combination 0 makes of a rank's values what they are, and every
/// host has one rank: what a rank sends first it sends from the inputs. Requires: turns.count() > 1.
std::unique_ptr<Schedule> circulant_allreduce_schedule(int rank, const RankLayout& layout, std::size_t bytes,
                                                       std::size_t slice, std::size_t rails,
                                                       const CirculantTurns& turns, bool sends_inputs);

/// Bytes of a slice: `least`, or as many as make the step short (balanced_slice.h), where a slice takes so many
/// messages of a rank in a phase.
std::size_t circulant_slice(std::size_t bytes, std::size_t rails, std::size_t messages, std::size_t least);

}  // namespace ronde::collectives
