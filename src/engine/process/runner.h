// Runner: a process as a member of a job, in which it runs: its engines, the groups among them, the thread that serves
// them and what is measured and written meanwhile. Any thread submits requests here and waits for them.
//
// Who steps the engines: driver_role.h and engine_thread.h.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "engine/core/engine_set.h"
#include "engine/groups/group_ids.h"
#include "engine/groups/job_groups.h"
#include "engine/groups/member_groups.h"
#include "engine/groups/process_sets.h"
#include "engine/progress/driver_role.h"
#include "engine/progress/engine_thread.h"
#include "engine/progress/prober.h"
#include "engine/progress/thread_alarm.h"
#include "engine/progress/timeline_recording.h"
#include "engine/requests/callback_queue.h"

namespace ronde::engine {

class Runner final : private ParentJob {
 public:
  /// Starts the engine thread; all signals are blocked in it. `groups`: what makes those within the job; null: there
  /// can be none. `ids`: by which they are known; null: as in a process's first job. Errors: a timer descriptor or
  /// thread is refused.
  static Result<std::unique_ptr<Runner>> start(std::unique_ptr<Engine> engine, std::unique_ptr<GroupConnector> groups,
                                               const Clock& clock, std::shared_ptr<GroupIds> ids = nullptr);
  /// Leaves at once (as leave_now) if neither shutdown() nor leave_now() was called.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// The job's.
  Engine& engine() override { return engines_.job(); }
  const EngineSet& engines() const { return engines_; }
  ProcessSets& process_sets() { return process_sets_; }
  MemberGroups& member_groups() { return member_groups_; }
  /// Of a process set collective over all ranks of the job, of a group that its members have made over those. What is
  /// under way in the group and not submitted by all members fails.
  Status end_group(std::int32_t group);
  /// How many groups this rank has a part of (JobGroups::taken()).
  std::size_t groups_taken() const { return job_groups_.taken(); }
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
  /// Until the ticket is done: ok then, and its name is free. TIMED_OUT at the limit, INTERRUPTED after a signal: the
  /// ticket is still under way. WOULD_DEADLOCK in a callback, if it is not done.
  Status wait(Ticket& ticket, WaitLimit limit);
  /// The same until any of them is done; `index` is the first in order. Requires: not empty.
  Status wait_any(std::span<const TicketPtr> tickets, WaitLimit limit, std::size_t& index);
  /// Blocks until the engine touches the ticket's memory no more, and frees its name. WOULD_DEADLOCK in a callback, if
  /// it is not done.
  Status release(Ticket& ticket);
  /// A ticket that kept its name is not submitted again. Requires: it was waited for.
  void forget(Ticket& ticket);

  /// Of this host, for timelines that are started later.
  void know_job_clock(const JobClock& clock) { timeline_.know_job_clock(clock); }
  /// Any rank for itself: from now on all that happens to every tensor here is written to `path` (timeline_path() of
  /// this rank), until stop_timeline() or the end of this runner. INVALID_ARGUMENT while one is written, SYSTEM_ERROR
  /// naming the file if it cannot be.
  Status start_timeline(const std::string& path, bool mark_cycles) { return timeline_.start(path, mark_cycles); }
  /// The file is complete then. INVALID_ARGUMENT if none is written.
  Status stop_timeline() { return timeline_.stop(); }

  /// Collective: leaves the job, waiting for the others up to settings().shutdown_timeout, then ends the thread.
  /// TIMED_OUT if some had not left by then. Once.
  Status shutdown();
  /// Leaves without waiting for what others have yet to submit, then ends the thread. Waits up to two seconds until
  /// the peers have taken what this rank has sent. For exit handlers.
  void leave_now();

  /// Whether the calling thread runs a completion callback just now.
  static bool in_callback() { return CallbackQueue::runs_in_this_thread(); }

 private:
  Runner(std::unique_ptr<Engine> engine, std::unique_ptr<GroupConnector> groups, const Clock& clock,
         std::shared_ptr<GroupIds> ids);

  Status start_thread();
  Status call(const TicketPtr& ticket) override;
  void add_group(std::shared_ptr<Engine> engine, int call) override;
  Status leave_group(std::int32_t group) override;
  void set_hooks(Engine& engine);
  void free_name(Ticket& ticket);
  void tell_wanted(Ticket& ticket);
  template <typename Condition>
  Status wait_for_leave(const Condition& over);
  void end_thread();

  EngineSet engines_;
  const Clock& clock_;
  CallbackQueue callbacks_;
  ThreadAlarm alarm_;
  DriverRole role_;
  const std::shared_ptr<GroupIds> group_ids_;
  JobGroups job_groups_;
  ProcessSets process_sets_;
  MemberGroups member_groups_;
  TimelineRecording timeline_;
  std::atomic<bool> left_{false};
  std::unique_ptr<Prober> prober_;
  std::unique_ptr<EngineThread> thread_;
};

}  // namespace ronde::engine
