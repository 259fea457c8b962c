// Engine: owns the stages of one member of a job and moves them on by step(). It has no thread, never blocks and knows
// no global state: N of them live in one test process. Who calls step() and who waits: runner.h.
//
// submit -> inbox -> agreement -> (coordinator) -> planner -> executor -> completion, and once a name is replayed
// submit -> bucket -> completion; see README.md in this folder.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agreement/coordinator.h"
#include "base/clock.h"
#include "control/control.h"
#include "engine/cancellations.h"
#include "engine/connections.h"
#include "engine/executor.h"
#include "engine/exposed_memory.h"
#include "engine/loss.h"
#include "engine/pending_table.h"
#include "engine/point_to_point.h"
#include "engine/replay.h"
#include "engine/settings.h"
#include "engine/shared_heap.h"
#include "engine/submissions.h"
#include "engine/ticket.h"
#include "observe/observer.h"
#include "observe/stall.h"
#include "transport/arena.h"

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

struct Counters {
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> plans{0};
  std::atomic<std::uint64_t> fused_tensors{0};
  std::atomic<std::uint64_t> bytes_reduced{0};
  std::atomic<std::uint64_t> direct_bytes{0};  ///< in learning; of those in replay see Replay::Counters
  std::atomic<std::uint64_t> control_messages{0};
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
  /// `clock` must outlive the engine. One engine per arena. `group`: the ranks of the job that these members are, in
  /// the order of the connections and the topology; none: they are the job. `jobs_heap`: with a group, that of the
  /// job's engine.
  Engine(Topology topology, Connections connections, Settings settings, const Clock& clock, Group group = {},
         std::shared_ptr<SharedHeap> jobs_heap = nullptr);
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
  void propose_table(const Thresholds& thresholds) { submissions_.propose_table(thresholds); }
  /// The row in force.
  Thresholds thresholds() const;
  /// Before a caller waits for the ticket.
  void want(Ticket& ticket) { replay_.want(ticket); }
  /// A peer's process has ended.
  void notice_end(int peer) { loss_.notice(peer); }
  bool has_ended(int peer) const { return loss_.is_gone(peer); }
  bool has_outstanding() const {
    return finished_.load(std::memory_order_relaxed) != counters_.requests.load(std::memory_order_relaxed);
  }
  /// The last request to be submitted here has failed since other ranks did not come in time, and none is outstanding:
  /// there is little use in waiting for them once more.
  bool is_let_down() const {
    const std::uint64_t requests = counters_.requests.load(std::memory_order_relaxed);
    return let_down_at_.load(std::memory_order_relaxed) == requests && requests > 0 && !has_outstanding();
  }
  bool has_input() const { return submissions_.any() || replay_.has_work() || cancellations_.any_added(); }
  const Topology& topology() const { return topology_; }
  const Group& group() const { return group_; }
  const Settings& settings() const { return settings_; }
  const Counters& counters() const { return counters_; }
  const Replay::Counters& replay_counters() const { return replay_.counters(); }
  transport::HostArena& arena() const { return *connections_.arena; }
  const Connections& connections() const { return connections_; }
  /// Connections::news_fd().
  int news_fd() const { return connections_.news_fd(); }
  const Clock& clock() const { return clock_; }
  /// Where callers get memory that the other ranks map too; one for all engines of a job.
  const std::shared_ptr<SharedHeap>& shared_heap() const { return shared_heap_; }

  // ---- One thread at a time (the progress lock).

  /// Moves everything that can move; true if anything did. Never blocks.
  bool step();
  /// Something is being replayed, which poll() moves.
  bool only_replays() const { return replay_.is_moving(); }
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
  }
  /// `visit_neighbours` visits the other engines of this process, whose tensors may lie in the same pages.
  using VisitNeighbours = std::function<void(const std::function<void(Engine&)>&)>;
  void set_neighbours(VisitNeighbours visit_neighbours) { visit_neighbours_ = std::move(visit_neighbours); }
  /// The ranks that have not left, for the report of a shutdown that timed out.
  bool everyone_left() const { return replay_.all_left(); }

  /// Called under the progress lock: `on_finished` after one or several tickets have finished, to wake who waits;
  /// `on_callback` for each that has a callback, to queue it, with how it ended and what it owned. Set once.
  using CallbackHook = std::function<void(const TicketPtr&, Status, std::shared_ptr<void>)>;
  void set_hooks(std::function<void()> on_finished, CallbackHook on_callback) {
    on_finished_ = std::move(on_finished);
    on_callback_ = std::move(on_callback);
  }

 private:
  enum class State { working, failing, failed };

  bool receive_news();
  bool cancel_due(Nanoseconds now);
  bool take_submissions(Nanoseconds now);
  void take_join(const TicketPtr& ticket);
  void finish_join(Status status, int last = -1);
  TicketPtr ticket_of(const control::ExecEntry::Item& item) const;
  bool exchange_messages(Nanoseconds now);
  Status handle(int from, control::Message& message, Nanoseconds now);
  template <typename Tell>
  Status with_coordinator(int from, const Tell& tell);
  bool publish_log();
  bool apply_outcome(Nanoseconds now);
  void use_table(const Thresholds& thresholds);
  void send_to_coordinator(control::Message message, Nanoseconds deadline, Nanoseconds now);
  Status plan(const std::vector<control::ExecEntry::Item>& items);
  void fail_to_launch();
  void plan_started(const PlanRun& run);
  void end(const TicketPtr& ticket, Status status);
  void finish(const TicketPtr& ticket, Status status);
  bool finish_completed();
  void plan_finished(const PlanRun& run, const Status& status);
  void check_time(Nanoseconds now);
  bool step_failing(Nanoseconds now);
  void start_failing(Nanoseconds now, const std::vector<int>& late, bool departed);
  enum class End { in_error, in_loss, in_order };
  void fail_everything(const std::function<Status(const Ticket&)>& reason, Status later_ones, End end = End::in_error);
  void abandon_plans();
  bool may_touch(int peer) const;
  void take_memory_back();
  bool is_in_use(const std::byte* begin, std::size_t bytes) const;
  bool follow_who_gave_up(Nanoseconds now) { return (peers_gave_up_ || replay_.peers_gave_up()) && give_up_too(now); }
  bool give_up_too(Nanoseconds now);
  void report_stalls(Nanoseconds now);
  void note_left();
  bool give_up_if_held_up(Nanoseconds now);
  std::vector<int> departed() const;
  std::vector<int> held_up_by() const;
  std::vector<TicketPtr> close_agreement(const Status& reason, End end = End::in_error);
  bool has_gone(int peer) const;
  bool look_who_is_gone();
  bool look_at_pairs();
  bool check_answers(Nanoseconds now);
  void serve_nobody();
  void close_heap();
  std::string peer_text(int peer) const;
  Status left_job(int peer) const;
  /// Of a member: its rank in the job, by which callers know it.
  int rank_of(int member) const { return group_.ranks[static_cast<std::size_t>(member)]; }

  Topology topology_;
  Settings settings_;
  const Clock& clock_;
  const Connections connections_;
  transport::Peers& peers_;
  const bool owns_heap_;
  std::shared_ptr<SharedHeap> shared_heap_;
  backend::Backend& backend_;
  Group group_;
  control::Control control_;
  PendingTable pending_;
  Counters counters_;
  TicketPtr join_;  ///< under way
  Loss loss_;
  Replay replay_;
  Submissions submissions_;
  std::optional<agreement::Coordinator> coordinator_;
  control::SettingsEntry plan_settings_;
  Executor executor_;
  PointToPoint pairs_;
  observe::StallReport stall_;
  observe::Observer* observer_ = nullptr;
  std::function<void()> on_finished_;
  CallbackHook on_callback_;

  State state_ = State::working;
  Nanoseconds failing_since_ = 0;
  Nanoseconds next_answer_check_ = 0;
  bool coordinator_is_gone_ = false;
  std::vector<bool> pair_is_gone_;  ///< by rank: seen to have gone, its last messages perhaps not read yet
  std::vector<PlanRun> abandoned_;
  ExposedMemory exposed_;
  bool peers_gave_up_ = false;  ///< seen at the end of a plan
  VisitNeighbours visit_neighbours_;
  bool leave_begun_ = false;
  bool leave_noted_ = false;

  Cancellations cancellations_;
  mutable std::mutex table_mutex_;
  std::optional<Thresholds> table_;            ///< guarded by table_mutex_: the last row that was read in the log
  std::atomic<std::uint64_t> finished_{0};     ///< of counters_.requests; written under the progress lock
  std::atomic<std::uint64_t> let_down_at_{0};  ///< counters_.requests when the time of one was up last
};

}  // namespace ronde::engine
