// Exchange: every rank sends each other rank what it has for it, in chunks, a chunk a stage; receivers put it in its
// place, or reduce it in rank order with what they have for themselves. One stage of messages, so the fewest turns
// there are: allgather, alltoall, gather, scatter, reduce, reducescatter and scans as they are, and all-reduce and
// broadcast of small tensors.
//
// The bytes that rank i sends are those that it has for others; of a small all-reduce (p-1) N, where two phases
// (two_phase_schedule.h) send 2 (p-1)/p N in two turns.
#pragma once

#include <memory>

#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

struct Exchange {
  int rank = 0;
  std::vector<std::size_t> outgoing;  ///< bytes for each rank, this one included; list j is what goes to rank j
  std::vector<std::size_t> incoming;  ///< bytes from each rank; list ranks + i is where that of rank i goes
  std::size_t longest = 0;            ///< of all that any rank has for any: the same on every rank
  std::size_t chunk = 0;              ///< bytes of a message at most, a multiple of 16: the same on every rank
  bool one_list = false;              ///< all of these are list 0
  bool tells_all = false;             ///< in stage 0 every rank sends each other a message, be it empty
  bool reduces = false;               ///< what comes is reduced into this rank's own part, in place of being put down
  bool keeps = false;                 ///< nothing is written to what is sent (kept_inputs.h)
  std::vector<int> inputs;            ///< where it reduces: whose values, in rank order
};

std::unique_ptr<Schedule> exchange_schedule(Exchange exchange);

}  // namespace ronde::collectives
