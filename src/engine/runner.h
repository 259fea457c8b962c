// Runner: who moves an engine on, and who waits.
//
// A waiting thread drives: it takes the driver's role and steps the engine itself, so that a blocking call hands
// nothing over to another thread (a hand-over to a sleeping core and back costs up to 80 us). Other waiters sleep until
// their ticket is done or the role is free. The one engine thread drives when nobody waits, watches the peers'
// processes and the timers, and runs callbacks.
//
// Sleeping and waking between ranks goes by the arena's bell (transport/bell.h); within a process the engine thread is
// woken by an eventfd of its own, and where links have news that ring no bell sleepers poll for these too. silent for a
// moment (kLinger): in a loop of blocking calls peers would otherwise wake the engine thread between any two of them. A
// timer then hands the bell to the engine thread, so an idle rank sleeps for good.
//
// While buckets are replayed, the engine thread is attentive: it looks every kAttention and nobody wakes it, neither a
// submit of this rank nor a word of a peer, since waking a thread costs more than a submit may. Kept up until nothing
// was replayed for kAttentionSpan. Where several ranks share a core their threads look that much less often, so that
// all their looks together take no more of it: 32 ranks that looked as often as two kept a core of two from working.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "collectives/host/table.h"
#include "engine/engine_set.h"
#include "engine/groups.h"
#include "engine/prober.h"
#include "observe/timeline.h"
#include "transport/bell.h"

namespace ronde::engine {

class Runner {
 public:
  /// Starts the engine thread; all signals are blocked in it. Errors: a timer descriptor or thread is refused. `table`:
  /// by which groups that are made reduce.
  static Result<std::unique_ptr<Runner>> start(std::unique_ptr<Engine> engine, const Clock& clock,
                                               const collectives::Table& table = collectives::Table::built_in());
  /// Leaves at once (as leave_now) if neither shutdown() nor leave_now() was called.
  ~Runner();

  /// The job's.
  Engine& engine() { return *engine_; }
  const EngineSet& engines() const { return engines_; }
  Groups& groups() { return groups_; }
  /// From now on the table of thresholds is probed in the background, until this runner leaves. At most once, by the
  /// coordinator's rank, before other threads know the runner.
  void start_probing(ProbeTask task);

  // ---- Any thread.

  Status submit(const TicketPtr& ticket);
  /// As submit, by a caller who waits for the ticket right away and so drives it himself: wakes nobody here.
  Status submit_to_wait(const TicketPtr& ticket);
  /// The next number of the group's calls without a name: Engine::take_call_number().
  Result<std::uint64_t> take_call_number(std::int32_t group) const;
  /// Engine::refuse_call().
  Status refuse_call(std::int32_t group, std::uint64_t number, const std::string& why);
  /// What submit() would say to this request, apart from its name being taken.
  Status check(const Request& request) const;
  /// Of requests to this group that have no limit of their own; the job's where there is no such group.
  Nanoseconds timeout_of(std::int32_t group) const;
  Status resubmit(const TicketPtr& ticket, std::shared_ptr<void> owner);
  /// All of them, of one group, none of which is under way. On an error the first ones may have been submitted, and the
  /// others are done, with that error.
  Status submit_all(std::span<const TicketPtr> tickets);

  /// Engine::cancel().
  Status cancel(const TicketPtr& ticket);

  /// Somebody asks whether it is done, without waiting.
  void want(Ticket& ticket);
  /// Until the ticket is done: ok then, and its name is free. TIMED_OUT once `limit` nanoseconds have passed,
  /// INTERRUPTED after a signal: the ticket is still under way. WOULD_DEADLOCK in a callback, if it is not done.
  Status wait(Ticket& ticket, Nanoseconds limit);
  /// The same until any of them is done; `index` is the first in order. Requires: not empty.
  Status wait_any(std::span<const TicketPtr> tickets, Nanoseconds limit, std::size_t& index);
  /// Blocks until the engine touches the ticket's memory no more, and frees its name. WOULD_DEADLOCK in a callback, if
  /// it is not done.
  Status release(Ticket& ticket);
  /// A ticket that kept its name is not submitted again. Requires: it was waited for.
  void forget(Ticket& ticket);

  /// Its members' engine is part of the job from now on. `call`: as EngineSet::add().
  void add_group(std::shared_ptr<Engine> engine, int call);
  /// Collective over the group's members: leaves it, waiting for the others up to settings().shutdown_timeout; then its
  /// engine is gone. TIMED_OUT if some had not left by then.
  Status leave_group(std::int32_t group);

  /// Any rank for itself: from now on all that happens to every tensor here is written to `path` (timeline_path() of
  /// this rank), until stop_timeline() or the end of this runner. INVALID_ARGUMENT while one is written, SYSTEM_ERROR
  /// naming the file if it cannot be.
  Status start_timeline(const std::string& path, bool mark_cycles);
  /// The file is complete then. INVALID_ARGUMENT if none is written.
  Status stop_timeline();

  /// Collective: leaves the job, waiting for the others up to settings().shutdown_timeout, then ends the thread.
  /// TIMED_OUT if some had not left by then. Once.
  Status shutdown();
  /// Leaves without waiting for anybody, then ends the thread. For exit handlers.
  void leave_now();

  /// How often an engine thread looks while buckets are replayed, of so many ranks on so many cores.
  static Nanoseconds attention_of(int ranks, double cores);
  /// How long a driver that finds nothing gives its core away between looks before it sleeps.
  static Nanoseconds yielding_of(int ranks, double cores);
  /// Whether the calling thread runs a completion callback just now.
  static bool in_callback();

 private:
  /// The status is the ticket's at its end: a slot's ticket may be under way again when the callback runs.
  struct DueCallback {
    TicketPtr ticket;
    Status status;
    std::shared_ptr<void> owner;
  };

  Runner(std::unique_ptr<Engine> engine, const Clock& clock, const collectives::Table& table);

  template <typename Call>
  Status in_group(std::int32_t group, const Call& call) const;
  template <typename HandIn>
  Status hand_in(std::int32_t group, const HandIn& hand_in);
  void free_name(Ticket& ticket);
  void tell_wanted(Ticket& ticket);
  void set_hooks(Engine& engine);

  template <typename Condition>
  Status wait_until(const Condition& satisfied, Nanoseconds limit);
  template <typename Condition>
  Status wait_for_leave(const Condition& over);
  template <typename Condition>
  Status drive(const Condition& satisfied, Nanoseconds limit_at);
  template <typename Condition>
  Status sleep_as_driver(const Condition& satisfied, Nanoseconds limit_at);
  transport::Wake sleep_until_news(Nanoseconds limit);
  void wake_thread();
  bool try_step(bool whole);
  void stop_driving();
  Status sleep_until_called(std::uint32_t seen, Nanoseconds limit_at);
  void call_sleepers();

  void on_finished();
  void queue_callback(const TicketPtr& ticket, Status status, std::shared_ptr<void> owner);
  void kick();
  void start_linger(bool work_is_under_way);
  bool is_attentive(Nanoseconds now);
  void thread_main();
  void run_callbacks();
  void run(const DueCallback& call);
  void log_thrown(const std::string& name, const char* what) const;
  Nanoseconds prepare_sleep();
  Status watch_peers();
  void notice_ends();
  void sleep_in_poll(Nanoseconds until);
  void stop_thread();
  std::unique_ptr<observe::Timeline> detach_timeline();

  EngineSet engines_;
  Engine* const engine_;  ///< the job's
  const Clock& clock_;
  Groups groups_;
  transport::Sleeper bell_;
  const int news_fd_;        ///< Engine::news_fd() of the job's
  UniqueFd thread_bell_;     ///< an eventfd by which this process wakes the engine thread
  bool minds_bell_ = false;  ///< engine thread only: its sleep ends when peers ring or links have news
  UniqueFd linger_timer_;
  std::uint64_t seen_instances_ = 0;  ///< engine thread only
  Nanoseconds attentive_since_ = 0;   ///< engine thread only
  UniqueFd peers_;                    ///< an epoll set of the peers' processes, whose ends are not seen yet
  Nanoseconds spin_for_ = 0;          ///< how long a driver polls without giving up its core
  Nanoseconds yield_for_ = 0;         ///< how long it then gives its core away between looks
  Nanoseconds attention_ = 0;         ///< how often the engine thread looks while it is attentive

  bool driver_steps_ = false;           ///< guarded by step_mutex_: it is the driver that steps
  std::mutex step_mutex_;               ///< the progress lock: guards the engine's one-thread-at-a-time side
  std::atomic<bool> driver_{false};     ///< a waiting thread has the driver's role
  std::atomic<bool> lingering_{false};  ///< a driver has gone since the timer was last looked at
  std::atomic<bool> timer_armed_{false};
  std::atomic<bool> slept_to_limit_{false};  ///< the last driver, and saw nothing move afterwards
  std::atomic<bool> attentive_{false};       ///< the engine thread looks by itself soon, nobody needs to wake it
  std::atomic<bool> kicked_{false};          ///< the engine thread has been told to look
  std::atomic<std::uint32_t> calls_{0};      ///< futex word of waiters that do not drive
  std::atomic<int> sleepers_{0};

  std::mutex callback_mutex_;
  std::vector<DueCallback> callbacks_;  ///< guarded by callback_mutex_
  std::atomic<bool> stop_{false};
  std::atomic<bool> left_{false};
  std::thread thread_;
  std::unique_ptr<Prober> prober_;
  std::mutex timeline_mutex_;                    ///< one start or stop at a time; taken before step_mutex_
  std::unique_ptr<observe::Timeline> timeline_;  ///< guarded by timeline_mutex_
};

}  // namespace ronde::engine
