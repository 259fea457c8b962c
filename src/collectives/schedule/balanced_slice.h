// How long slices are to be of a tensor that goes between hosts, each slice in some messages.
//
// Of n bytes on a rail there are n / S slices of S bytes. A rank sends and receives m messages for each, about
// 4 m n / S in all with what it does in its host, each of which costs a processor what c bytes do on the way. The first
// slice is reduced in the hosts before the wire has anything to carry, and the last is shared out when it has no more,
// so S is lost too: 4 m n c / S + S is least for S in proportion to sqrt(n m c). The constant is what fits the
// simulated step of `ronde plan` on networks from 1 to 100 Gbit/s (docs/plan.md).
#pragma once

#include <cstddef>

namespace ronde::collectives {

/// `least` times a power of two, at most `most`: integers, so that ranks that round otherwise agree. `bytes`: on a
/// rail; `messages`: of a slice, from one rank to others in one phase.
constexpr std::size_t balanced_slice(std::size_t bytes, std::size_t messages, std::size_t least, std::size_t most) {
  constexpr std::size_t kMessageCost = std::size_t{8} << 10;  // what a message costs, in bytes that could be carried
  // In units of a message's cost: the square of the best slice.
  const std::size_t best_squared = bytes / kMessageCost * messages;
  std::size_t slice = least;
  while (2 * slice <= most && 2 * (slice / kMessageCost) * (slice / kMessageCost) < best_squared) {
    slice *= 2;
  }
  return slice;
}

}  // namespace ronde::collectives
