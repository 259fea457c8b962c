// GroupIds: the numbers by which callers know groups, over all jobs that this process takes part in, one after the
// other.
//
// Programs keep the id that a process set had when they were compiled (jax.jit, tf.function) or recorded (a graph of
// torch), and may run after a shutdown and a new init, in which sets are made again, in another order perhaps. So over
// all jobs of a process an id stands for the same ranks: a set that is made again has its id again, and no other set
// ever gets it. What has ended and is not made again is refused. Within one job no id is given out twice, so that a set
// that was removed and made again is a new one.
//
// The ranks of a job agree on an id though each has had jobs of its own before: each tells which id it knows for these
// ranks and from where on it has given out none (propose()), and all take the id that all know, else the first that
// none has given out (agreed()).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <vector>

namespace ronde::engine {

/// Ids of groups that their members have made alone begin here, those that all ranks make together below. 0 is the
/// job's.
inline constexpr std::int32_t kFirstOwnGroup = 1 << 30;

/// Any thread.
class GroupIds {
 public:
  /// What a rank tells the others.
  struct Proposal {
    std::int64_t known = 0;  ///< of these ranks, from an earlier job; 0: none
    std::int64_t free = 1;   ///< neither this id nor a higher one was ever given out here
  };

  /// A new job of this process: all ids may be given out again to the ranks that have had them.
  void begin_job();
  /// For a process set of these ranks, ascending.
  Proposal propose(const std::vector<int>& ranks) const;
  /// The same on all ranks that give the same proposals. Requires: not empty.
  static std::int32_t agreed(std::span<const Proposal> proposals);
  /// All ranks have made the set under this id.
  void take(std::int32_t id, const std::vector<int>& ranks);
  /// The next id of a group that its members make alone, which this rank has never given out.
  std::int32_t take_own();

 private:
  mutable std::mutex mutex_;
  std::map<std::vector<int>, std::int32_t> last_;  ///< of these ranks
  std::set<std::int32_t> taken_;                   ///< in this job
  std::int32_t free_ = 1;
  std::int32_t next_own_ = kFirstOwnGroup;
};

}  // namespace ronde::engine
