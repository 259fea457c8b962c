// Executions: which calls of compiled programs belong together, and by which names ranks meet after one of them has
// failed.
//
// Where a call fails XLA begins no more of that execution: a rank may have begun calls then that another has not come
// to. With the same names in the next execution they would meet that rank's calls, and every sum from then on would be
// of two different executions. So
//  - a call that fails fails its execution: what that has under way on this rank is cancelled, and what XLA still
//    begins of it is refused;
//  - ranks then go on under other names, which have the number of a generation. A rank that has seen a failure is in
//    doubt about the program's calls. Before its next execution makes its first call in a group the rank asks the
//    group's others, by one name for all programs: where they are, and for the greatest generation that any would take.
//    A rank that has seen no failure does not answer: the limit of the question ends it, as that of any call;
//  - a rank that is in another program than the one with the greatest number, or in an earlier execution of it, gives
//    its execution up, and the others ask again: so it comes to where they are. All have seen then that they were
//    apart, and ask in every program. Ranks that waited for each other in different programs, up to the limit and all
//    as long, would stay apart for ever;
//  - an execution that has ended in an error before its first call, since a callback of Python's has raised, say,
//    counts as one that has failed. Python tells of it (python/ronde/jax/_endings.py), before it starts another. But if
//    an argument holds the error of another program, that one may have raised it itself on another rank, which has kept
//    its old argument then, or does not come to this execution at all. And an execution whose program may end without
//    any call may have had none elsewhere. Nobody knows then: the program is lost, and its calls are refused until the
//    next init().
// A rank counts the executions of a program in each group by itself: where each has a call there, all that have begun
// or have failed, else those that came to one. So ranks that are in other groups besides count alike.
//
// Each family of programs in a group has generations of its own. A family is one program, or all those that have calls
// with names that the caller has given, for these may meet each other's. All calls of an execution in one group have
// one generation. A failure of one that has made its calls in an earlier generation than the family's raises no doubt:
// they can meet no later ones. A new init() begins with no generation.
//
// XLA begins executions on one device in the order in which the program starts them, but those on several devices as it
// likes: with the same names they would meet each other's. So a family runs on one device of a process.
//
// Executions have numbers of this process: calls in order have theirs from their token, and a program without tokens
// makes one call in each execution. XLA's run ids are no such numbers: in JAX 0.6 and 0.7 executables of the same text
// have the same.
#pragma once

#include <ronde/ronde.h>

#include <compare>
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
#include <utility>
#include <vector>

namespace ronde::jax {

class Executions {
 public:
  static Executions& instance();

  /// What a call is to do. `refusal`: why it is not made, if it is not; else `suffix` belongs to its name.
  struct Answer {
    std::string refusal;
    std::string suffix;
    /// Executions of other programs with a call of the same name, which had not made all their calls.
    std::vector<std::int64_t> given_up;
  };

  /// Where a program makes calls.
  struct Place {
    std::int64_t group;
    std::int64_t family;   ///< of programs, in the group; 0: those with names that the caller has given
    std::int64_t program;  ///< by its name and its calls in the group: the same on all its ranks. At least 0
    bool always_calls;     ///< no execution of the program ends well without a call in the group
    auto operator<=>(const Place&) const = default;
  };

  /// An execution of which a call is about to begin.
  struct Beginning {
    std::int64_t run;
    std::uint64_t program;                ///< programs that make other calls on this rank have another
    std::optional<std::int64_t> launch;   ///< XLA's run id, where it tells
    std::optional<std::int64_t> device;   ///< it runs on, where XLA tells
    std::span<const Place> places;        ///< in which its program makes calls
    std::span<const std::int64_t> given;  ///< numbers of the names in it that the caller has given
  };

  /// The number of an execution that begins.
  static std::int64_t next_run();

  /// A call of the execution in this group, one of its places, is about to begin. May wait for the other ranks, after a
  /// failure only. Any thread of XLA's.
  Answer begin(const Beginning& execution, std::int32_t group);
  /// It was submitted. Before any end(). Cancels it if its execution has failed meanwhile.
  void add(std::int64_t run, ronde_ticket* ticket);
  /// It has ended; before the ticket is released. Any thread.
  void end(std::int64_t run, ronde_ticket* ticket);
  /// A call of the execution has failed with this error. `is_cause`: not since other calls have.
  /// Returns the error of the execution, which is that of the first that is a cause, or this one while there is none.
  /// Any thread. Throws std::bad_alloc, after what is under way has been cancelled.
  std::string fail(std::int64_t run, const std::string& error, bool is_cause);
  /// XLA has given the execution up before all its calls have begun, or ended.
  void give_up(std::int64_t run);
  /// Of an execution that has failed; empty: it has not.
  std::string error_of(std::int64_t run);

  /// A point in time.
  std::int64_t now();
  /// An execution that was started at this point, of a program that makes calls in these places, of which these have
  /// names that the caller has given, has ended in this error on this rank. Those of one program are told one by one.
  /// `is_of_argument`: an argument may have held it; else a function of Python's that the program calls has raised it.
  void ended_in_error(std::span<const Place> places, std::span<const std::int64_t> given, bool is_of_argument,
                      std::int64_t started, const std::string& error);

  /// This execution of the program begins. Returns the execution before it, if that has not left.
  std::optional<std::int64_t> enter(std::uint64_t program, std::int64_t run);
  /// All calls of this execution of the program have begun.
  void leave(std::uint64_t program, std::int64_t run);

 private:
  struct Execution {
    bool has_failed = false;
    bool is_known = true;                              ///< whether other ranks have made calls in it
    std::string error;                                 ///< of the call that failed
    bool is_cause = false;                             ///< that call has not failed since others have
    std::int64_t epoch = -1;                           ///< of the job that it was begun in
    std::optional<std::int64_t> launch;                ///< as Beginning's
    std::vector<Place> places;                         ///< in which its program makes calls; none: it has made none yet
    std::vector<std::int64_t> given;                   ///< as Beginning's
    std::set<std::int64_t> counted;                    ///< groups in which it has made calls, or would have
    std::map<std::int32_t, std::int64_t> generations;  ///< by group, of those that it has made calls in
    std::set<ronde_ticket*> under_way;
  };
  /// Of a program, in a family.
  struct Count {
    std::int64_t executions = 0;  ///< since init()
    std::int64_t aligned = 0;  ///< the last generation in which the ranks have found themselves in the same execution
    bool is_lost = false;      ///< nobody knows how many executions there were
  };
  struct Family {
    std::map<std::int64_t, Count> programs;
    std::int64_t generation = 0;
    bool is_in_doubt = false;            ///< this rank has seen a failure since all agreed on the generation
    std::optional<std::int64_t> device;  ///< on which its programs run
  };
  /// Of the ranks' answers, what becomes of the execution.
  enum class Met {
    here,       // all are in it
    others,     // others are not, and come
    elsewhere,  // others are in another program
    behind,     // others are in a later execution
    failed,     // the question was not answered
    again,      // nor was it, and is to be asked again
  };

  /// What a rank says, and the greatest of all ranks'. All have said the same if the negative number is the other
  /// one's.
  struct Said {
    std::int64_t generation;
    std::int64_t program, not_program;
    std::int64_t execution, not_execution;
  };

  Execution& execution(std::int64_t run);
  void follow_init();
  std::string fail_locked(std::int64_t run, const std::string& error, bool is_cause, const Place* unmade = nullptr);
  void cancel_rest(const Execution& failed, const Place* unmade);
  std::vector<std::int64_t> open(const Beginning& beginning);
  void give_up_locked(std::int64_t run);
  void count_rest(Execution& mine);
  Family& family(const Place& place) { return families_[{place.group, place.family}]; }
  bool needs_to_ask(const Place& place);
  bool agree(std::unique_lock<std::mutex>& lock, std::int64_t run, const Place& place, std::string& why);
  Met ask(std::unique_lock<std::mutex>& lock, const Place& place, std::string& why, bool& has_timed_out);
  Met follow(const Place& place, const Said& said);

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable asked_;
  std::unordered_map<std::int64_t, Execution> executions_;
  std::unordered_map<std::uint64_t, std::int64_t> entered_;  ///< programs that have begun, not all calls, and where
  std::deque<std::int64_t> newest_;                          ///< the executions, in the order in which they began
  std::map<std::pair<std::int64_t, std::int64_t>, Family> families_;  ///< by group and number
  std::set<std::int64_t> asking_;                                     ///< groups of which the ranks are asked now
  std::int64_t time_ = 0;                                             ///< counts what now() and first calls are told
  std::int64_t begun_ = 0;                                            ///< when the job has
  std::map<std::vector<Place>, std::int64_t> first_calls_;            ///< by program: when its last execution made one
  std::int64_t epoch_ = -1;                                           ///< of the job
};

}  // namespace ronde::jax
