// Groups: makes and ends groups of ranks, in two ways.
//
// Process sets (Horovod), by collectives of the whole job:
//
//     make      1. every rank tells all which ranks it wants, which must be the same, and the word of its part of the
//                  group, which it has reserved (group_connector.h)
//               2. each member makes its engine on it, and all tell all how that went: from then on every member's is
//                  there, and the group is known
//     destroy   1. every rank tells all which group it means
//               2. the members leave it, and all tell all that they have
//
// Their ids are not told: every rank counts alike, since these calls come in the same order on all ranks and succeed on
// all or on none.
//
// Groups that their members make alone (PyTorch), who meet in the job's store under a name: the same two rounds, among
// them. Others never hear of them, so their ids are each rank's own. Their members leave them by themselves.
//
// Either way the group lives within the job: in its memory, on its thread, woken by its bells.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/core/settings.h"
#include "engine/membership/connections.h"
#include "engine/requests/ticket.h"
#include "store/store.h"

namespace ronde::engine {

class Engine;

/// The job that groups are made in, as far as they need it.
class ParentJob {
 public:
  /// The job's.
  virtual Engine& engine() = 0;
  /// Submits to the job's engine and blocks until the ticket is done, signals or not.
  virtual Status call(const TicketPtr& ticket) = 0;
  /// Its members' engine is part of the job from now on. `call`: as EngineSet::add().
  virtual void add_group(std::shared_ptr<Engine> engine, int call) = 0;
  /// Collective over the group's members: leaves it, waiting for the others up to settings().shutdown_timeout; then its
  /// engine is gone. TIMED_OUT if some had not left by then.
  virtual Status leave_group(std::int32_t group) = 0;

 protected:
  ~ParentJob() = default;
};

/// Ids of groups that their members have made begin here.
inline constexpr std::int32_t kFirstOwnGroup = 1 << 30;

/// Where the members of a group meet who make it alone.
struct Meeting {
  store::Store* store = nullptr;  ///< null: there is but one member
  std::string name;               ///< in use for nothing else there
  int size = 1;                   ///< of the group
  Nanoseconds deadline = kNever;  ///< on the real clock
};

/// Any thread.
class Groups {
 public:
  /// `job` must outlive this. Its connections can make groups (Connections::groups).
  explicit Groups(ParentJob& job) : job_(job) {}

  /// Collective over all ranks of the job, in the same order of calls on all; one at a time. The ranks are sorted.
  /// Gives the id, the same on all ranks, members or not; ids begin at 1 and are not used again. INVALID_ARGUMENT,
  /// MISMATCH or OUT_OF_MEMORY on every rank alike, and nothing has happened.
  Result<std::int32_t> make(std::vector<int> ranks);
  /// Collective over the group's members alone, of which this rank is one. The ranks keep their order; `timeout` is of
  /// requests that have none. Gives this rank's id for the group. INVALID_ARGUMENT or OUT_OF_MEMORY on every member
  /// alike, or what the store says, and nothing has happened.
  Result<std::int32_t> make_with_members(const std::vector<int>& ranks, const Meeting& meeting, Nanoseconds timeout);
  /// Collective over all ranks of the job; of a group made by its members, over those. What is under way in the group
  /// and not submitted by all members fails.
  Status destroy(std::int32_t group);

  /// How many groups this rank has a part of (GroupConnector::taken()).
  std::size_t taken() const { return connector().taken(); }

 private:
  struct Known {
    std::vector<int> ranks;
    std::optional<GroupPart> part;  ///< if this rank is a member
  };
  /// What a rank has to say.
  struct Word {
    std::vector<std::int64_t> numbers;
    std::vector<std::int64_t> part = {};  ///< of a member: GroupPart::word
    Status problem = {};                  ///< why it cannot go on
  };

  static std::vector<std::byte> encode(const Word& word);
  static Result<std::vector<Word>> decode(std::span<const std::byte> bytes, std::size_t count);
  static Status first_problem(const std::vector<Word>& words, const std::vector<int>& ranks);
  Result<std::vector<Word>> exchange(const std::string& name, const Word& own);
  static Result<std::vector<Word>> meet(const Meeting& meeting, const std::string& what, int own, const Word& word);
  Word reserve(const std::vector<int>& ranks, std::optional<GroupPart>& part);
  Status compare(const std::vector<Word>& wanted) const;
  Result<std::shared_ptr<Engine>> open(const GroupPart& part, std::int32_t id, const std::vector<Word>& members,
                                       Nanoseconds timeout);
  void add(std::int32_t id, const std::vector<int>& ranks, std::optional<GroupPart> part,
           std::shared_ptr<Engine> engine);
  Status check_ranks(std::vector<int> ranks) const;
  int own_rank() const;
  GroupConnector& connector() const;
  GroupConnector::HasEnded has_ended() const;
  bool knows(std::int32_t id);
  Status leave(std::int32_t id);

  ParentJob& job_;
  std::mutex collective_mutex_;  ///< one collective of the whole job at a time; taken before mutex_
  std::mutex mutex_;
  std::int32_t next_id_ = 1;                   ///< guarded by collective_mutex_
  std::int32_t next_own_id_ = kFirstOwnGroup;  ///< guarded by mutex_
  std::map<std::int32_t, Known> known_;        ///< guarded by mutex_; of all ranks, and this one's own
};

}  // namespace ronde::engine
