// Group ids: the numbers by which callers know groups within a job. 0 is the job's own group.
//
// Compiled programs keep the id that a group had when they were traced (jax.jit, tf.function, a graph of torch), and
// may run after a shutdown and a new init in which other groups have been made, or the same in another order. So an id
// is not given out again in a later init: what has ended is refused, and never taken for another group. The ranks of a
// job agree on which init of the process it is (Topology::epoch), so that each counts its ids alone.
#pragma once

#include <cstdint>

namespace ronde::engine {

/// Ids of groups that their members have made alone begin here, those that all ranks make together below.
inline constexpr std::int32_t kFirstOwnGroup = 1 << 30;
/// Ids of one init. The init after kInits of them begins again with the first ids.
inline constexpr std::int32_t kIdsOfInit = 1 << 20;
inline constexpr std::uint64_t kInits = kFirstOwnGroup / kIdsOfInit;

/// The number of the first id, 0, in the init of this epoch, which counts from 1 (0: as 1).
constexpr std::int32_t ids_of_init(std::uint64_t epoch) {
  return static_cast<std::int32_t>((epoch == 0 ? 0 : epoch - 1) % kInits) * kIdsOfInit;
}
/// Of the groups that all ranks of the job make together.
constexpr std::int32_t first_set_id(std::uint64_t epoch) { return ids_of_init(epoch) + 1; }
/// Of the groups that their members make alone.
constexpr std::int32_t first_own_group_id(std::uint64_t epoch) { return kFirstOwnGroup + ids_of_init(epoch); }
constexpr bool is_made_by_members(std::int32_t id) { return id >= kFirstOwnGroup; }
/// Whether the id was given out in another init than that of this epoch. Requires: id > 0.
constexpr bool is_of_another_init(std::int32_t id, std::uint64_t epoch) {
  return id % kFirstOwnGroup / kIdsOfInit != ids_of_init(epoch) / kIdsOfInit;
}

}  // namespace ronde::engine
