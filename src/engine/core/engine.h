// Engine: owns the stages of one member of a job and moves them on by step(). It has no thread, never blocks and knows
// no global state: N of them live in one test process. Who calls step() and who waits: progress/driver_role.h.
//
// submit -> inbox -> agreement -> (coordinator) -> planner -> executor -> completion, and once a name is replayed
// submit -> bucket -> completion; see ../README.md.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/control.h"
#include "engine/core/inbox.h"
#include "engine/core/settings.h"
#include "engine/core/submissions.h"
#include "engine/core/unfinished_work.h"
#include "engine/membership/connections.h"
#include "engine/membership/deaths.h"
#include "engine/membership/group_members.h"
#include "engine/membership/member_names.h"
#include "engine/p2p/point_to_point.h"
#include "engine/plans/agreed_plans.h"
#include "engine/plans/coordinator_role.h"
#include "engine/plans/table_in_force.h"
#include "engine/replay/replay.h"
#include "engine/requests/cancellations.h"
#include "engine/requests/completion.h"
#include "engine/requests/counters.h"
#include "engine/requests/pending_table.h"
#include "engine/requests/ticket.h"
#include "observe/observer.h"
#include "transport/reachable_memory.h"

namespace ronde::engine {

/// Who this member is.
struct Topology {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
  std::uint64_t epoch = 1;  ///< how often this process has initialised
};

inline constexpr int kCoordinator = 0;  ///< member index of the coordinator

/// How far this member's shutdown has come.
enum class Leaving {
  no,
  waiting,  ///< said so; work that all had submitted is finished, others have yet to leave
  over,     ///< nothing more will happen: all have left, or those who have not cannot be reached
};

class Engine {
 public:
  /// `clock` must outlive the engine. `group`: the ranks of the job that these members are, in the order of the
  /// connections and the topology; none: they are the job.
  Engine(Topology topology, Connections connections, Settings settings, const Clock& clock, Group group = {});
  ~Engine();

  // ---- Any thread.

  /// Checks the ticket's request, takes its name and hands it in; it takes effect at the next step(). On an error
  /// nothing has happened and the ticket is worth nothing.
  Status submit(const TicketPtr& ticket) { return submissions_.submit(ticket); }
  /// The number of a call without a name, which the request then carries. Taken when the program calls, before anything
  /// is looked at: ranks pair such calls by their order alone.
  std::uint64_t take_call_number() { return submissions_.take_call_number(); }
  /// The call of this number is not made: the program was refused it before it could be submitted. The ranks that make
  /// it are told why. Somebody must step afterwards.
  void refuse_call(std::uint64_t number, const std::string& why) { submissions_.refuse_call(number, why); }
  /// What submit() would say to this request, apart from its name being taken.
  Status check(const Request& request) const { return submissions_.check(request); }
  /// Hands a finished ticket in again, for slots. DUPLICATE_NAME if it was neither waited for nor released.
  /// `owner` lives until the ticket's callback has run.
  Status resubmit(const TicketPtr& ticket, std::shared_ptr<void> owner) {
    return submissions_.resubmit(ticket, std::move(owner));
  }
  /// The same for one without a callback, whose request check() has passed; the first time too.
  Status submit_again(const TicketPtr& ticket) { return submissions_.submit_again(ticket); }
  /// The caller does not want its end: unless all ranks have submitted it by then, it fails on all with CANCELLED.
  void cancel(const TicketPtr& ticket) { cancellations_.add(ticket); }
  /// Of many, in order, until one is refused; `submitted` says how many were not.
  Status submit_again(std::span<const TicketPtr> tickets, std::size_t& submitted) {
    return submissions_.submit_again(tickets, submitted);
  }
  /// After the caller has waited for or given up the ticket.
  void free_name(Ticket& ticket) { pending_.free_name(ticket); }
  /// A ticket that kept its name is not submitted again. Requires: it was waited for.
  void forget(Ticket& ticket) { pending_.forget(ticket); }
  /// Asks for another row of the table of thresholds, which counts once it is read in the log. Only the coordinator's
  /// rank has a say. Somebody must step afterwards.
  void propose_table(const Thresholds& thresholds) { inbox_.propose(thresholds); }
  /// The row in force.
  Thresholds thresholds() const { return table_.get(); }
  /// The same as a row of text (Backend::table_row()). Any thread.
  std::string table_row() const { return backend_.table_row(table_.get()); }
  /// By what plans are executed.
  std::string_view backend_name() const { return backend_.name(); }
  /// Before a caller waits for the ticket.
  void want(Ticket& ticket) { replay_.want(ticket); }
  /// A peer's process has ended.
  void notice_end(int peer) { deaths_.notice(peer); }
  bool has_ended(int peer) const { return deaths_.is_gone(peer); }
  bool has_outstanding() const { return completion_.has_outstanding(); }
  /// The last request to be submitted here has failed since other ranks did not come in time, and none is outstanding:
  /// there is little use in waiting for them once more.
  bool is_let_down() const { return completion_.is_let_down(); }
  bool has_input() const { return inbox_.any() || replay_.has_work() || cancellations_.any_added(); }
  const Topology& topology() const { return topology_; }
  const Group& group() const { return group_; }
  const Settings& settings() const { return settings_; }
  const Counters& counters() const { return counters_; }
  const ReplayCounters& replay_counters() const { return replay_.counters(); }
  const Connections& connections() const { return connections_; }
  /// Connections::news_fd().
  int news_fd() const { return connections_.news_fd(); }
  const Clock& clock() const { return clock_; }
  /// Where callers get memory that the other ranks reach.
  transport::ReachableMemory& memory() const { return *connections_.memory; }

  // ---- One thread at a time (the progress lock).

  /// Moves everything that can move; true if anything did. Never blocks.
  bool step();
  /// Something is being replayed, so that poll() alone is worth calling.
  bool replays() const { return replay_.is_moving(); }
  /// Moves only what is replayed; true if anything did. For a waiter that looks again and again.
  bool poll();
  /// Nothing is under way here: until somebody submits or rings, or the next timer, step() has nothing to do.
  bool may_rest() const;
  /// When step() has something to do even if nobody rings; kNever if nothing.
  Nanoseconds next_timer() const;
  /// Begins to leave: requests not submitted by all ranks fail, later ones are refused.
  void begin_leave();
  Leaving leaving() const;
  /// Gives up waiting for the others: this member serves nobody any more. Call once leaving() is over or the limit has
  /// passed.
  void finish_leave();
  /// Ends everything with this error, tells the other ranks that this one is out of it.
  void fail(const Status& status);
  /// From now on this one, or nobody if null, is told of every stage of every request. It must outlive its time here.
  void observe(observe::Observer* observer) {
    observer_ = observer;
    replay_.observe(observer);
    coordinator_.observe(observer);
    completion_.observe(observer);
    plans_.observe(observer);
  }
  /// `visit_neighbours` visits the other engines of this process, whose tensors may lie in the same pages.
  using VisitNeighbours = std::function<void(const std::function<void(Engine&)>&)>;
  void set_neighbours(VisitNeighbours visit_neighbours) { visit_neighbours_ = std::move(visit_neighbours); }
  /// For the report of a shutdown that timed out.
  bool everyone_left() const { return replay_.all_left(); }

  /// As Completion has them; called under the progress lock. Set once.
  void set_hooks(std::function<void()> on_finished, Completion::CallbackHook on_callback) {
    completion_.set_hooks(std::move(on_finished), std::move(on_callback));
  }

 private:
  enum class State { working, failing, failed };

  bool receive_news();
  bool cancel_due(Nanoseconds now);
  bool take_submissions(Nanoseconds now);
  void take_join(const TicketPtr& ticket);
  void finish_join(Status status, int last = -1);
  bool exchange_messages(Nanoseconds now);
  Status handle(int from, control::Message& message, Nanoseconds now);
  bool publish_log();
  bool apply_outcome(Nanoseconds now);
  void send_to_coordinator(control::Message message, Nanoseconds deadline, Nanoseconds now);
  void check_time(Nanoseconds now);
  bool check_answers(Nanoseconds now);
  bool look_who_is_gone();
  std::vector<int> departed() const;
  std::vector<int> held_up_by() const;
  bool give_up_if_held_up(Nanoseconds now);
  bool follow_who_gave_up(Nanoseconds now) {
    return (plans_.peers_gave_up() || replay_.peers_gave_up()) && give_up_too(now);
  }
  bool give_up_too(Nanoseconds now);
  void fail_to_launch();
  void start_failing(Nanoseconds now, const std::vector<int>& late, bool departed);
  bool step_failing(Nanoseconds now);
  void fail_everything(const UnfinishedWork::Reason& reason, const Status& later_ones, End end = End::in_error);
  bool is_in_use(const std::byte* begin, std::size_t bytes) const;
  void note_left();
  void serve_nobody();
  void end_memory() { memory().end(everyone_left()); }
  int rank_of(int member) const { return names_.rank_of(member); }

  Topology topology_;
  Settings settings_;
  const Clock& clock_;
  const Connections connections_;
  transport::Peers& peers_;
  backend::Backend& backend_;
  Group group_;
  control::Control control_;
  PendingTable pending_;
  Counters counters_;
  TicketPtr join_;  ///< under way
  Deaths deaths_;
  const MemberNames names_;
  const GroupMembers members_;
  Replay replay_;
  Inbox inbox_;
  Submissions submissions_;
  CoordinatorRole coordinator_;
  Completion completion_;
  AgreedPlans plans_;
  TableInForce table_;
  PointToPoint pairs_;
  UnfinishedWork unfinished_;
  observe::Observer* observer_ = nullptr;

  State state_ = State::working;
  Nanoseconds failing_since_ = 0;
  Nanoseconds next_answer_check_ = 0;
  bool coordinator_is_gone_ = false;
  VisitNeighbours visit_neighbours_;
  bool leave_begun_ = false;
  bool leave_noted_ = false;

  Cancellations cancellations_;
};

}  // namespace ronde::engine
