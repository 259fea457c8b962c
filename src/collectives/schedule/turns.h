// Turns: in which turns the hosts of a group bring together what each has, something small.
//
// The concatenation of Bruck, Ho, Kipnis, Upfal and Weathersby ("Efficient Algorithms for All-to-All Communications in
// Multiport Message-Passing Systems", IEEE TPDS 8(11), 1997). Of H hosts in a ring host h has, when it has w blocks,
// those of hosts h, h+1, ..., h+w-1. In a turn of radix r it sends all of them to the hosts w, 2w, ..., (r-1)w before
// it and hears as much from those behind, so it has rw; the last turn sends what is missing. A turn of radix H is the
// exchange of each with each; with radices of 2 there are log2(H) turns of one message each. Each host receives H-1
// blocks in any case.
//
// If a turn costs as much as t messages (the time on the way beside what a processor does for a message), the sum of t
// and its messages over all turns is to be least: best_turns() looks for the radices by a dynamic program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ronde::collectives {

/// Radices of the turns in order, each at least 2; the product is at least `hosts`, and that of all but the last is
/// less. `hosts`: at least 1; `turn`: how many messages a turn costs.
inline std::vector<std::size_t> best_turns(std::size_t hosts, std::size_t turn) {
  std::vector<std::size_t> cost(hosts + 1);   // by blocks that a host has: of the turns that are left
  std::vector<std::size_t> radix(hosts + 1);  // of the next of them
  for (std::size_t have = hosts - 1; have > 0; --have) {
    const std::size_t all_at_once = (hosts + have - 1) / have;
    for (std::size_t each = all_at_once; each >= 2; --each) {
      const std::size_t after = std::min(have * each, hosts);
      if (const std::size_t all = turn + each - 1 + cost[after]; radix[have] == 0 || all < cost[have]) {
        cost[have] = all;
        radix[have] = each;
      }
    }
  }
  std::vector<std::size_t> turns;
  for (std::size_t have = 1; have < hosts; have *= radix[have]) {
    turns.push_back(radix[have]);
  }
  return turns;
}

/// Messages of a host in a turn: visit(step, count) for each, with the blocks of `count` hosts, its own first, to the
/// host `step` before it, and as much from the host as far behind, which becomes blocks `step` and following.
template <typename Visit>
void for_each_message(const std::vector<std::size_t>& radices, std::size_t turn, std::size_t hosts, Visit&& visit) {
  std::size_t have = 1;
  for (std::size_t before = 0; before < turn; ++before) {
    have *= radices[before];
  }
  for (std::size_t step = have; step < std::min(have * radices[turn], hosts); step += have) {
    visit(step, std::min(have, hosts - step));
  }
}

}  // namespace ronde::collectives
