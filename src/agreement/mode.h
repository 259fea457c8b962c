// Mode: what a member is doing, the columns of its table (member.h). Reason: why it left replay.
#pragma once

#include <cstdint>

namespace ronde::agreement {

enum class Mode : std::uint8_t {
  negotiate,  ///< no bucket is in force: everything goes to the coordinator
  replay,     ///< buckets are in force
  frozen,   ///< publishes nothing more in this epoch, waits until all ranks are frozen (in an ordered group: for BREAK)
  drain,    ///< knows which instances count; finishes them
  failing,  ///< a rank has died; waits until every survivor is quiet
  failed,   ///< over
};

/// Why a rank broke the replay. For reports and the planner; the protocol is the same for all.
enum class Reason : std::uint8_t {
  none,
  descriptor,  ///< another shape, type, place in memory ... under a planned name
  stall,       ///< a bucket stays half full here
  late_peers,  ///< a full bucket has waited too long for the others
  deadline,    ///< a request's time is up
  join,
  leave,  ///< shutdown, of this rank or seen in the log
  abort,
  wrap,         ///< the instance counter is about to overflow
  peer,         ///< another rank froze first
  idle,         ///< many buckets are not in use, and can be retired between two epochs only
  other_calls,  ///< the ranks' unnamed calls met in a bucket and were not the same
  crowded,      ///< the program makes more unnamed calls at once than were planned: they are reduced one by one
};

}  // namespace ronde::agreement
