// Groups: makes and ends groups of ranks (Horovod: process sets), by collectives of the whole job:
//
//     make      1. every rank tells all which ranks it wants: they must be the same
//               2. each member makes its part of the group's arena (transport/group_arena.h) and its engine on it, and
//               all
//                  tell all how that went: from then on every member's part is there, and the group is known
//     destroy   1. every rank tells all which group it means
//               2. the members leave it; when all have told all that they have, the memory is given back
//
// Ids and places are not told: every rank counts alike, since these calls come in the same order on all ranks and
// succeed on all or on none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agreement/heap_map.h"
#include "base/status.h"
#include "collectives/host/table.h"
#include "transport/arena.h"

namespace ronde::engine {

class Engine;
class Runner;

/// Any thread, one call at a time; the others wait for it.
class Groups {
 public:
  /// `table`: by which groups reduce. `runner` must outlive this.
  Groups(Runner& runner, const collectives::Table& table);

  /// Collective over all ranks of the job, in the same order of calls on all. The ranks are sorted. Gives the id, the
  /// same on all ranks, members or not; ids begin at 1 and are not used again. INVALID_ARGUMENT, MISMATCH or
  /// OUT_OF_MEMORY on every rank alike, and nothing has happened.
  Result<std::int32_t> make(std::vector<int> ranks);
  /// Collective over all ranks of the job. What is under way in the group and not submitted by all members fails.
  Status destroy(std::int32_t group);

 private:
  struct Known {
    std::vector<int> ranks;
    std::int64_t offset = 0;  ///< of its place in the heaps
    std::size_t bytes = 0;
  };
  /// What a rank has to say: numbers, or why it cannot go on.
  struct Word {
    std::vector<std::int64_t> numbers;
    std::string problem;
  };

  Result<std::vector<Word>> exchange(const std::string& name, const Word& own);
  Result<std::shared_ptr<Engine>> open(const Known& group, std::int32_t id);
  void give_back(const Known& group);
  Status check_ranks(const std::vector<int>& ranks) const;

  Runner& runner_;
  const collectives::Table table_;
  std::mutex mutex_;
  std::int32_t next_id_ = 1;             ///< guarded by mutex_, as all below
  std::map<std::int32_t, Known> known_;  ///< of all ranks
  agreement::HeapMap places_;
};

}  // namespace ronde::engine
