// Turns: in which turns the hosts of a group tell each other something small, each turn the hosts of a group of some.
//
// Recursive multiplying (Ruefenacht, Bull and Booth, "Generalisation of recursive doubling for AllReduce", Parallel
// Computing 69, 2017). A number r, the radix, belongs to each turn. The numbers of P hosts, P the product of all
// radices, are read as digits of these radices; in a turn the r hosts that differ in the turn's digit only send each
// other what they have. After the turn each has what all of them had, so after the last one what all P had. With one
// turn of radix P that is an exchange of each with each, with all radices 2 recursive doubling.
//
// Hosts beyond P, fewer than P, fold: the k-th of them gives host k what it has before the first turn, and hears the
// result from it after the last.
//
// Of H hosts each sends in a turn r - 1 messages. If a turn costs what t messages do (the time on the way beside what a
// processor does for a message), the sum of t + r - 1 over all turns is to be least, a fold counting as two turns of
// one message: best_turns() finds the radices, by a dynamic program over products.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ronde::collectives {

struct Turns {
  std::vector<int> radices;  ///< each at least 2; none: one host
  int core = 1;              ///< the product: hosts that take part in the turns; the others fold
};

/// Of so many hosts, at least 1; `turn`: how many messages a turn costs.
inline Turns best_turns(int hosts, std::size_t turn) {
  const auto count = static_cast<std::size_t>(hosts);
  std::vector<std::size_t> cost(count + 1, 0);  // by how many hosts: of the best turns; 0: none are known
  std::vector<std::size_t> last(count + 1, 1);  // the last radix of these
  for (std::size_t product = 1; product <= count; ++product) {
    for (std::size_t radix = 2; radix * product <= count; ++radix) {
      std::size_t& of_more = cost[radix * product];
      if (const std::size_t all = cost[product] + turn + radix - 1; of_more == 0 || all < of_more) {
        of_more = all;
        last[radix * product] = radix;
      }
    }
  }
  std::size_t core = count;
  std::size_t least = cost[count];
  const std::size_t of_fold = 2 * (turn + 1);
  for (std::size_t fewer = count - 1; 2 * fewer >= count; --fewer) {
    if (cost[fewer] + of_fold < least) {
      core = fewer;
      least = cost[fewer] + of_fold;
    }
  }
  Turns turns{{}, static_cast<int>(core)};
  for (; core > 1; core /= last[core]) {
    turns.radices.push_back(static_cast<int>(last[core]));
  }
  std::sort(turns.radices.begin(), turns.radices.end());
  return turns;
}

}  // namespace ronde::collectives
