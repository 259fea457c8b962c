// CirculantTurns: in which turns the hosts of a group bring together blocks, one of each host, or reduce them, one for
// each host; every host does the same as every other, seen from where it stands in the ring of all.
//
// Gather. Block j of a host is that of the j-th host after it. Before a turn each host has blocks 0 to w-1. For each
// message (distance d, first f, count c) of the turn it sends its blocks f-d to f-d+c-1 to the host d before it, and
// gets so its own blocks f to f+c-1 from the host d after it: of both hosts they are the same blocks. After the last
// turn each host has all.
//
// Scatter. The turns the other way round, the last one first, and in each the messages the other way round: a host
// sends its partial sums of blocks f to f+c-1 to the host d after it, which adds them to its own of blocks f-d to
// f-d+c-1. What a host has sent of a block it needs no more, so after a turn before which a gathering host has w blocks
// a host has partial sums of blocks 0 to w-1, and at the end of block 0, its own, the sum of all hosts.
//
// Each host sends and receives H-1 blocks in either, the least that is possible.
//
//     by radices   turns.h: of radix r, messages (k w, k w, at most w) for k from 1 to r-1. Of radix 2 there are
//                  log2(H) messages, rounded up: recursive doubling and halving, but for any number of hosts (Traeff,
//                  "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms", 2023). Of radix H each host sends
//                  to each in one turn.
//     ring         H-1 turns of one message (1, w, 1): each host sends to its neighbour only (Patarasuk and Yuan,
//                  "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009)
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/schedule/turns.h"

namespace ronde::collectives {

class CirculantTurns {
 public:
  struct Message {
    std::size_t distance;
    std::size_t first;
    std::size_t count;
  };
  using Turn = std::vector<Message>;

  /// Where a turn costs as much as `turn` messages.
  static CirculantTurns by_radices(std::size_t hosts, std::size_t turn) {
    CirculantTurns turns;
    const std::vector<std::size_t> radices = best_turns(hosts, turn);
    for (std::size_t index = 0; index < radices.size(); ++index) {
      turns.turns_.emplace_back();
      for_each_message(radices, index, hosts, [&](std::size_t step, std::size_t count) {
        turns.turns_.back().push_back({step, step, count});
      });
    }
    return turns;
  }

  static CirculantTurns ring(std::size_t hosts) {
    CirculantTurns turns;
    for (std::size_t have = 1; have < hosts; ++have) {
      turns.turns_.push_back({{1, have, 1}});
    }
    return turns;
  }

  std::size_t count() const { return turns_.size(); }
  /// In the order of the gather.
  const Turn& turn(std::size_t index) const { return turns_[index]; }
  /// How many messages a host sends in all turns.
  std::size_t messages() const {
    std::size_t all = 0;
    for (const Turn& turn : turns_) {
      all += turn.size();
    }
    return all;
  }

 private:
  std::vector<Turn> turns_;
};

}  // namespace ronde::collectives
