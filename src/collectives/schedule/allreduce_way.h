// Which schedule an all-reduce takes that travels as messages, and how the ranks of a host and then the hosts combine
// values on that way without giving other bits than all ranks in one go where that is promised (MessageLimits).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/schedule/circulant_turns.h"
#include "collectives/schedule/message_limits.h"
#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule_run.h"

namespace ronde::collectives::messages {

/// An all-reduce's schedule and how it combines values.
struct AllreduceWay {
  std::unique_ptr<Schedule> schedule;
  std::vector<Combination> combinations;
  bool hears_through_others = false;  ///< ranks hear of some others through those between them
};

/// Chosen by the layout, the sizes, the limits and the reduction alone: the same on every rank. In the first stage of
/// one in which no rank hears of others through others every rank sends each other a message.
AllreduceWay allreduce_way(int rank, const RankLayout& layout, const MessageLimits& limits, std::size_t bytes,
                           const reduce::Reduction& reduction);

/// How the ranks of each host and then the hosts combine so many bytes of values; nothing where that has no use, or
/// would give other bits than all ranks in order where these are promised. The same on every rank.
std::vector<Combination> combinations_by_hosts(const RankLayout& layout, const MessageLimits& limits, std::size_t bytes,
                                               const reduce::Reduction& reduction);

/// In which turns hosts bring together, or scatter, so many bytes in all; one turn: each sends to each.
CirculantTurns large_turns(int hosts, const MessageLimits& limits, std::size_t bytes);

/// How many bytes of values are reduced in some turns between hosts.
struct WayInTurns {
  CirculantTurns turns;
  /// Of the ranks of a host, of the hosts at last, and of two of them before; nothing where several turns have no use,
  /// or would give other bits than all ranks in order where these are promised.
  std::vector<Combination> combinations;
};

/// Of more bytes than go in one turn of all hosts. The same on every rank.
WayInTurns way_in_turns(const RankLayout& layout, const MessageLimits& limits, std::size_t bytes,
                        const reduce::Reduction& reduction);

}  // namespace ronde::collectives::messages
