// Executions: which calls of compiled programs belong together, and by which names ranks meet after one of them has
// failed.
//
// Where a call fails XLA begins no more of that execution: a rank may have begun calls then that another has not come
// to. With the same names in the next execution they would meet that rank's calls, and every sum from then on would be
// of two different executions. So
//  - a call that fails fails its execution: what that has under way on this rank is cancelled, and what XLA still
//    begins of it is refused;
//  - ranks then go on under other names, which have the number of a generation. Each group counts its own. A rank that
//    has seen a failure is in doubt about the groups in which that program makes calls. Before its next execution makes
//    its first call in such a group the rank asks the group's others for the greatest number that any of them would
//    take, and whether they are in the same execution: each counts those of programs that have calls in the group,
//    whether they came to them or not. Where some are behind, the execution of these fails, and the others ask again. A
//    rank that has seen no failure does not answer: the limit of the question ends it, as that of any call.
// All calls of an execution in one group have one generation. A new init() begins with none.
//
// XLA's run id tells executions apart; it is a rank's own. Where XLA's interface is too old to tell it, calls in order
// have the number of their execution from their token, and of programs with one call nothing of this is done.
#pragma once

#include <ronde/ronde.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace ronde::jax {

class Executions {
 public:
  static Executions& instance();

  /// What a call is to do. `refusal`: why it is not made, if it is not; else `suffix` belongs to its name.
  struct Answer {
    std::string refusal;
    std::string suffix;
  };

  /// A call of the execution `run` in this group is about to begin. `groups`: in which its program makes calls, this
  /// one among them. May wait for the other ranks, after a failure only. Any thread of XLA's.
  Answer begin(std::int64_t run, std::int32_t group, std::span<const std::int64_t> groups);
  /// It was submitted. Before any end(). Cancels it if its execution has failed meanwhile.
  void add(std::int64_t run, ronde_ticket* ticket);
  /// It has ended; before the ticket is released. Any thread.
  void end(std::int64_t run, ronde_ticket* ticket);
  /// A call of the execution has failed with this error. `is_cause`: not since other calls have. Returns the error of
  /// the execution, which is that of the first that is a cause, or this one while there is none. Any thread. Throws
  /// std::bad_alloc, after what is under way has been cancelled.
  std::string fail(std::int64_t run, const std::string& error, bool is_cause);
  /// Of an execution that has failed; empty: it has not.
  std::string error_of(std::int64_t run);

  /// The first call of this execution of the program begins. Returns the execution before it, if that has not left.
  std::optional<std::int64_t> enter(std::uint64_t program, std::int64_t run);
  /// All calls of this execution of the program have begun.
  void leave(std::uint64_t program, std::int64_t run);

 private:
  struct Execution {
    bool has_failed = false;
    std::string error;                                 ///< of the call that failed
    bool is_cause = false;                             ///< that call has not failed since others have
    std::int64_t epoch = -1;                           ///< of the job that it was begun in
    std::vector<std::int32_t> groups;                  ///< in which its program makes calls
    std::map<std::int32_t, std::int64_t> generations;  ///< by group, of those that it has made calls in
    std::set<ronde_ticket*> under_way;
  };
  struct Group {
    std::int64_t executions = 0;  ///< of programs that make calls in it, since init()
    std::int64_t generation = 0;
    bool is_in_doubt = false;  ///< this rank has seen a failure since all agreed on the generation
    bool is_asking = false;
  };

  Execution& execution(std::int64_t run);
  void follow_init();
  std::string fail_locked(std::int64_t run, const std::string& error, bool is_cause);
  void cancel_rest(const Execution& failed);
  bool agree(std::unique_lock<std::mutex>& lock, std::int64_t run, std::int32_t group, std::string& why);
  bool ask(std::unique_lock<std::mutex>& lock, std::int32_t group, std::string& why);

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable asked_;
  std::unordered_map<std::int64_t, Execution> executions_;
  std::unordered_map<std::uint64_t, std::int64_t> entered_;  ///< programs that have begun calls, not all, and where
  std::deque<std::int64_t> newest_;                          ///< the executions, in the order in which they began
  std::map<std::int32_t, Group> groups_;
  std::int64_t epoch_ = -1;  ///< of the job
};

}  // namespace ronde::jax
