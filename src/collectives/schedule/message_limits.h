// MessageLimits: where one schedule ends to be the best and another begins, for what travels as messages.
#pragma once

#include <cstddef>

namespace ronde::collectives::messages {

/// What a turn costs where it has no use to take several.
inline constexpr std::size_t kEachWithEach = std::size_t{1} << 20;

/// The same on every rank.
struct MessageLimits {
  std::size_t one_turn = std::size_t{32} << 10;  ///< all-reduces and broadcasts of more bytes go in two phases
  /// The same of all-reduces by what all hosts' values come to, each of which every host receives.
  std::size_t gathered = std::size_t{4} << 20;
  /// How many messages a turn costs: by that what is small goes in few turns of many messages or in many of few, where
  /// hosts are many (turns.h).
  std::size_t turn = 2;
  /// The same of each of the two phases of larger all-reduces of more than two hosts (circulant_turns.h).
  std::size_t large_turn = kEachWithEach;
  /// Hosts of one rank each, whose one processor would have more to add in several turns, send each other parts of more
  /// bytes in one all the same. A part is the tensor shared out among the hosts.
  std::size_t direct = std::size_t{32} << 10;
  /// From so many bytes on these phases go round a ring of all hosts, whatever a turn costs; 0: none does.
  std::size_t ring = 0;
  /// Bytes of a message at most, a multiple of 128; between many hosts hierarchical_slice() and
  /// circulant_slice() make more of it.
  std::size_t chunk = std::size_t{256} << 10;
  /// Up to so many ranks all-reduces of several hosts add in the order of ranks, as on one host, bit for bit, whatever
  /// that costs: so a program that is tried on two hosts gives what it gave on one. More ranks do so where a chain has
  /// that order for nothing (chain_schedule.h), else add host by host, since each host would send its numbers once for
  /// each rank of the others.
  int rank_order_to = 4;
};

}  // namespace ronde::collectives::messages
